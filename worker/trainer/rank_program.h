#pragma once

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/train_loop.h"

namespace dp::trainer {

// Runs one rank of a train job from joining its world to the end of training, or until all ranks
// are asked to leave. It goes on from the latest checkpoint of the job, or from the ones that the
// job names; rank 0 makes new ones, and writes the final weights where the job wants them. Blocks
// for as long as that takes.
//
// A rank that loses a peer is not the one to blame: it aborts its group, says whom it waited for
// until the deadline, and waits to be stopped with the others, so that the job's failure is the
// peer's. Only when nobody stops it within the job's detectWithin does it fail itself, with the
// error of the collective.
//
// Errors: InvalidArgument or NotFound the spec or its data, named; DeadlineExceeded or
// FailedPrecondition the world was not sealed; Aborted, Unavailable, DeadlineExceeded a collective;
// the system's own where an output file cannot be written, with the job file's field.
absl::StatusOr<TrainingEnd> RunRank(const Environment& environment, const Clock& clock);

// Whether such an error says that others are gone, and nothing of this rank.
bool LostPeer(const absl::Status& status);

}  // namespace dp::trainer
