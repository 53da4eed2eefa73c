#pragma once

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/loop/train_loop.h"

namespace dp::trainer {

// Runs one rank of a train job, from joining the world until the training ends or all ranks are
// asked to leave. The rank resumes from the job's latest checkpoint, or from the checkpoints that
// the job names. Rank 0 writes new checkpoints and the final weights. Blocks until then.
//
// A rank that loses a peer is not the root cause. It aborts its group and reports which ranks it
// waited for. It then waits to be stopped with the others, so that the job blames the lost peer. If
// nobody stops the rank within detectWithin, it fails with the collective's error.
//
// Errors: InvalidArgument or NotFound names the faulty field or data. DeadlineExceeded or
// FailedPrecondition the world was not sealed. Aborted, Unavailable or DeadlineExceeded a
// collective failed. The system's error, with the job file's field, an output file cannot be
// written.
absl::StatusOr<TrainingEnd> RunRank(const Environment& environment, const Clock& clock);

// Whether the error means that peers are gone and this rank is sound.
bool LostPeer(const absl::Status& status);

}  // namespace dp::trainer
