#pragma once

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
  absl::Duration timeout;  // with kDeadline: the one that passed
};

// The queue and thread of a group: runs its operations one after another, in order, and ends them
// early on Abort and at their deadlines. Owned by its group, which outlives it; Push from one
// thread, the rest from any. It is the thread in Work::Wait that notices a deadline, so an idle
// group costs nothing.
//
// Who unblocks a blocked operation: `wake`, given by the backend, is called after the stop reason
// was set; the running operation then returns soon, having let go of the caller's memory.
class OperationQueue {
 public:
  // One operation, run on the queue's thread. Once stop_reason() is set it returns an error soon.
  using Run = std::function<absl::Status()>;

  // `wake` makes a running operation look at stop_reason(); called from any thread, maybe more than
  // once, also between operations.
  OperationQueue(const GroupOptions& options, std::function<void()> wake,
                 const Clock& clock = Clock::Steady());
  // As Close.
  ~OperationQueue();

  // `name` begins every error of the operation. Its deadline is `timeout` from now, or the group's.
  std::unique_ptr<Work> Push(std::string name, Run run,
                             std::optional<absl::Duration> timeout = std::nullopt);

  void Abort(const absl::Status& why);
  // Aborts what is left, runs `last` on the thread, and joins it. Idempotent.
  void Close(std::function<void()> last = nullptr);
  StopReason stop_reason() const;

  // The error of the running operation `name` that must stop: for the reason above; `missing` are
  // the ranks that did not arrive, where known.
  absl::Status StopError(const std::string& name, const std::vector<int>& missing) const;

 private:
  class State;
  class QueuedWork;

  const std::shared_ptr<State> state_;  // shared with every Work, which may outlive the group
  std::jthread thread_;
};

}  // namespace dp::engine
