#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/nccl_api.h"
#include "worker/engine/collectives/nccl_group.h"

namespace dp::engine {

// Freed with the last who holds it. The group's NcclApi must live until then.
using NcclEvent = std::shared_ptr<void>;

absl::StatusOr<NcclEvent> RecordNcclEvent(NcclApi& api, NcclApi::Stream stream);

// One operation between its call and its end.
struct NcclOperation {
  // Gives it to the stream.
  using Enqueue = std::function<absl::Status(NcclApi::Communicator)>;

  // What it holds until it has ended. The group's thread reads it without a lock: it alone changes
  // it after the push.
  struct Means {
    Enqueue enqueue;                                   // empty: there is nothing to give
    absl::StatusOr<NcclEvent> computed = NcclEvent();  // passed when its input is there
    NcclEvent done;  // passed when its result is there; null before it was given
  };

  std::string name;
  int64_t number = 0;   // from 1
  bool leaves = false;  // parts from the peers
  absl::Time called;
  Means means;

  // Of NcclOperations, under its lock.
  bool given = false;
  bool ended = false;
  absl::Status status;
  WorkTimes times;
};

// Operations on their way between the threads of a group: the caller pushes and waits, the group's
// own thread takes, gives and ends them in order, and anybody may abort. Shared with every Work,
// which may outlive the group. Thread-safe.
class NcclOperations {
 public:
  using Handle = std::shared_ptr<NcclOperation>;

  // A caller that never waits meets `open_max` instead of using up memory.
  explicit NcclOperations(const Clock& clock, size_t open_max = kNcclOperationsMax)
      : clock_(clock), open_max_(open_max) {}

  // Of the caller. Too many at once end at once with ResourceExhausted, and break the group.
  void Push(const Handle& operation) DP_EXCLUDES(mu_);
  absl::Status Wait(const NcclOperation& operation) DP_EXCLUDES(mu_);
  // Blocks until the operation was given to its stream, or has ended; answers the event that passes
  // with its result, null where there is nothing to wait for.
  absl::StatusOr<NcclEvent> AwaitGiven(const NcclOperation& operation) DP_EXCLUDES(mu_);
  bool ended(const NcclOperation& operation) const DP_EXCLUDES(mu_);
  WorkTimes times(const NcclOperation& operation) const DP_EXCLUDES(mu_);

  // The first reason stays.
  void Abort(const absl::Status& why) DP_EXCLUDES(mu_);

  // Of the group's thread. Take answers what was pushed since the last time.
  std::vector<Handle> Take() DP_EXCLUDES(mu_);
  std::optional<absl::Status> aborted() const DP_EXCLUDES(mu_);
  // The error of an operation that was one too many.
  std::optional<absl::Status> overrun() const DP_EXCLUDES(mu_);
  void Given(NcclOperation& operation, NcclEvent done) DP_EXCLUDES(mu_);
  // The first time counts.
  void Begun(NcclOperation& operation) DP_EXCLUDES(mu_);
  void End(NcclOperation& operation, const absl::Status& status) DP_EXCLUDES(mu_);
  // Blocks until something is pushed or aborted, and at most so long.
  void AwaitNews(absl::Duration timeout) DP_EXCLUDES(mu_);

 private:
  // Returns what is to be freed without the lock.
  NcclOperation::Means EndLocked(NcclOperation& operation, const absl::Status& status)
      DP_REQUIRES(mu_);

  const Clock& clock_;
  const size_t open_max_;
  mutable Mutex mu_;
  CondVar news_;   // for the group's thread
  CondVar moved_;  // for callers
  std::deque<Handle> pushed_ DP_GUARDED_BY(mu_);
  size_t open_ DP_GUARDED_BY(mu_) = 0;  // pushed and not ended
  std::optional<absl::Status> overrun_ DP_GUARDED_BY(mu_);
  std::optional<absl::Status> aborted_ DP_GUARDED_BY(mu_);
  bool abort_is_news_ DP_GUARDED_BY(mu_) = false;
};

}  // namespace dp::engine
