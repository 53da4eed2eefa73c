#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "worker/engine/collectives/group.h"

namespace dp::engine {

// Why an operation must stop now, as its backend sees it.
struct StopReason {
  enum class Kind { kNone, kDeadline, kAbort };
  Kind kind = Kind::kNone;
  absl::Status why;        // with kAbort
  absl::Duration timeout;  // with kDeadline: the timeout that passed
};

// Runs an operation for which a thread waits.
enum class RunBy {
  kThread,  // the queue's thread
  // The waiting thread, if the operation has not begun. This spares two changes of threads, and the
  // memory stays in the cache of one core.
  kWaiter,
};

// Calls of a foreign library by the operations of a queue, which may never return.
struct ForeignCalls {
  // On any thread: in which call of a foreign library the running operation is. A number that no
  // other call has, or 0. Null: operations make no such calls.
  std::function<uint64_t()> current = nullptr;
  // An operation that was stopped may stay in one call for 20 turns.
  absl::Duration turn = absl::Milliseconds(250);
};

// The queue and thread of a group: runs its operations one after another, in order, and ends them
// early on Abort and at their deadlines. Owned by its group, which outlives it. Push from one
// thread; the rest from any. The thread in Work::Wait notices a deadline, so an idle group costs
// nothing. While that thread runs the operation itself, the queue's does.
//
// To unblock the running operation, the queue sets the stop reason and then calls `wake`, given by
// the backend. The operation then returns soon, having released the caller's memory.
//
// A foreign library may have calls that never return. With ForeignCalls, an operation that hangs in
// one ends for its waiters 5 s after the stop. The call may still use the operation's memory, as
// the error says. The queue then runs nothing more, and Close blocks until the call returns.
class OperationQueue {
 public:
  // One operation. Once stop_reason() is set it returns an error soon.
  using Run = std::function<absl::Status()>;

  // `wake` makes a running operation check stop_reason(). Any thread may call it, maybe more than
  // once, also between operations. While a thread waits for an operation, that thread also calls it
  // at this interval. With `foreign_calls` a `wake` for a stop may hang, too.
  OperationQueue(const GroupOptions& options, std::function<void()> wake,
                 const Clock& clock = Clock::Steady(),
                 absl::Duration interval = absl::InfiniteDuration(), RunBy run_by = RunBy::kThread,
                 ForeignCalls foreign_calls = {});
  // Same as Close.
  ~OperationQueue();

  // `name` begins every error of the operation. Its deadline is `timeout` from now; by default the
  // group's timeout.
  std::unique_ptr<Work> Push(std::string name, Run run,
                             std::optional<absl::Duration> timeout = std::nullopt);

  void Abort(const absl::Status& why);
  // Operations that have not begun fail with `why`, unless an operation has failed before.
  void Break(const absl::Status& why);
  // The error with which the next operation would fail; OK if none.
  absl::Status failure() const;
  // Aborts what is left, runs `last` on the queue's thread, and joins the thread. Idempotent.
  void Close(std::function<void()> last = nullptr);
  StopReason stop_reason() const;

  // The error of the running operation `name`, which must stop for stop_reason(). `missing`: the
  // ranks that did not arrive, where known.
  absl::Status StopError(const std::string& name, const std::vector<int>& missing) const;

 private:
  class State;
  class QueuedWork;

  const std::shared_ptr<State> state_;  // shared with every Work, which may outlive the group
  std::jthread thread_;
};

}  // namespace dp::engine
