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
#include "worker/engine/collectives/nccl/nccl_api.h"
#include "worker/engine/collectives/nccl/nccl_group.h"

namespace dp::engine {

// Freed with its last holder. The group's NcclApi must live until then.
using NcclEvent = std::shared_ptr<void>;

absl::StatusOr<NcclEvent> RecordNcclEvent(NcclApi& api, NcclApi::Stream stream);

// One operation between its call and its end.
struct NcclOperation {
  // Gives the operation to the stream.
  using Enqueue = std::function<absl::Status(NcclApi::Communicator)>;

  // Held until the operation has ended. The group's thread reads this without a lock, since only
  // that thread changes it after the push.
  struct Means {
    Enqueue enqueue;                                   // empty: there is nothing to give
    absl::StatusOr<NcclEvent> computed = NcclEvent();  // passed when the input is there
    NcclEvent done;  // passed when the result is there; null until the operation is given
  };

  std::string name;
  int64_t number = 0;   // from 1
  bool leaves = false;  // disconnects from the peers
  absl::Time called;
  Means means;

  // Used by NcclOperations, under its lock.
  bool given = false;
  bool ended = false;
  absl::Status status;
  WorkTimes times;
};

// The operations in flight between the threads of a group. The caller pushes and waits; the group's
// own thread takes, gives and ends them in order; any thread may abort. Shared with every Work,
// which may outlive the group. Thread-safe.
class NcclOperations {
 public:
  using Handle = std::shared_ptr<NcclOperation>;

  // `open_max` keeps a caller that never waits from using up memory.
  explicit NcclOperations(const Clock& clock, size_t open_max = kNcclOperationsMax)
      : clock_(clock), open_max_(open_max) {}

  // For the caller. A push beyond the limit ends at once with ResourceExhausted and breaks the
  // group.
  void Push(const Handle& operation) DP_EXCLUDES(mu_);
  absl::Status Wait(const NcclOperation& operation) DP_EXCLUDES(mu_);
  // Blocks until the operation is on its stream or has ended. Returns the event that passes with
  // its result; null if there is nothing to wait for.
  absl::StatusOr<NcclEvent> AwaitGiven(const NcclOperation& operation) DP_EXCLUDES(mu_);
  bool ended(const NcclOperation& operation) const DP_EXCLUDES(mu_);
  WorkTimes times(const NcclOperation& operation) const DP_EXCLUDES(mu_);

  // The first reason stays.
  void Abort(const absl::Status& why) DP_EXCLUDES(mu_);
  // Breaks the group. The first error stays.
  void Break(const absl::Status& why) DP_EXCLUDES(mu_);

  // For the group's thread. Take returns what was pushed since the last Take.
  std::vector<Handle> Take() DP_EXCLUDES(mu_);
  std::optional<absl::Status> aborted() const DP_EXCLUDES(mu_);
  // The error with which all later operations fail.
  std::optional<absl::Status> broken() const DP_EXCLUDES(mu_);
  // The first error with which an operation has ended, but for an abort. A group may be broken
  // before any operation ends.
  std::optional<absl::Status> failed() const DP_EXCLUDES(mu_);
  void Given(NcclOperation& operation, NcclEvent done) DP_EXCLUDES(mu_);
  // Only the first call counts.
  void Begun(NcclOperation& operation) DP_EXCLUDES(mu_);
  void End(NcclOperation& operation, const absl::Status& status) DP_EXCLUDES(mu_);
  // Blocks until something is pushed or aborted, at most for `timeout`.
  void AwaitNews(absl::Duration timeout) DP_EXCLUDES(mu_);

 private:
  // Returns what the caller must free without the lock.
  NcclOperation::Means EndLocked(NcclOperation& operation, const absl::Status& status)
      DP_REQUIRES(mu_);

  const Clock& clock_;
  const size_t open_max_;
  mutable Mutex mu_;
  CondVar news_;   // for the group's thread
  CondVar moved_;  // for callers
  std::deque<Handle> pushed_ DP_GUARDED_BY(mu_);
  size_t open_ DP_GUARDED_BY(mu_) = 0;  // pushed and not ended
  std::optional<absl::Status> failed_ DP_GUARDED_BY(mu_);
  std::optional<absl::Status> broken_ DP_GUARDED_BY(mu_);
  std::optional<absl::Status> aborted_ DP_GUARDED_BY(mu_);
  bool end_is_news_ DP_GUARDED_BY(mu_) = false;  // broken or aborted since the last Take
};

}  // namespace dp::engine
