#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "client/connection.h"
#include "client/pause.h"
#include "dp/v1/worlds.pb.h"
#include "worker/trainer/environment.h"

namespace dp::trainer {

// A rank's part in the rendezvous of its generation. The rank joins, waits until the world is
// sealed, and, after a peer's failure, waits until the world is closed. Retries while the
// coordinator is away. Not thread-safe.
class WorldSession {
 public:
  WorldSession(client::Connection& connection, client::Pause& pause, const Environment& environment,
               const Clock& clock);

  // Joins, and keeps the job's spec and checkpoints. Rank 0 announces that it reports the first
  // step (FirstStepReport). Errors: FailedPrecondition the generation is over; NotFound;
  // Unavailable after `timeout`.
  absl::Status Join(absl::Duration timeout);

  // Returns once every rank has joined. Errors: FailedPrecondition the world was closed, with the
  // reason; DeadlineExceeded names the ranks that are missing.
  absl::Status AwaitSealed(absl::Duration timeout);

  // Waits until the world is closed; returns its reason. Errors: DeadlineExceeded it is still open.
  absl::StatusOr<std::string> AwaitClosed(absl::Duration timeout);

  // Reports that this rank's collective failed because the `missing` ranks did not arrive, or, if
  // `missing` is empty, because of any other peer. `insist`: the others have had time to report
  // too.
  // Errors: NotFound; FailedPrecondition the generation is over; Unavailable after `timeout`.
  absl::Status Accuse(const std::vector<int>& missing, const absl::Status& error, bool insist,
                      absl::Duration timeout);

  // Reports that the training ends before its last step, and why. A coordinator of an earlier
  // release does not take the report, which is no error. Errors: as Accuse's.
  absl::Status StopEarly(const std::string& reason, absl::Duration timeout);

  // Whether one worker has all ranks, once the world is sealed. They are then processes of one host
  // and of one release. Unknown, hence false, where the ranks are too many to share memory, or
  // compute on GPUs.
  bool on_one_worker() const;

  const v1::JobSpec& spec() const { return spec_; }
  absl::Time submitted_at() const { return submitted_at_; }
  // The checkpoints of earlier generations, newest first.
  const std::vector<v1::Checkpoint>& checkpoints() const { return checkpoints_; }

 private:
  // Blocks until the world is in `state` or closed.
  absl::StatusOr<v1::World> AwaitState(v1::WorldState state, absl::Duration timeout);
  absl::StatusOr<v1::World> WatchOnce(absl::Time until);
  v1::MemberTable members() const;

  client::Connection& connection_;
  client::Pause& pause_;
  const Environment& environment_;
  const Clock& clock_;
  v1::JobSpec spec_;
  absl::Time submitted_at_;
  std::vector<v1::Checkpoint> checkpoints_;
  v1::World world_;
};

}  // namespace dp::trainer
