#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "dp/v1/checkpoints.pb.h"
#include "worker/engine/collectives/group.h"
#include "worker/trainer/model/rank_model.h"

namespace dp::trainer {

// Puts the weights and the optimizer's state of the best checkpoint into the model of every rank,
// after the last step. Every rank calls this. Rank 0 gives `best`, its best checkpoint on record;
// others give none. `now` is the manifest that the training would write itself, `step` the number
// of steps done. Returns the step of which the model is then: `step` if that is the best one, or if
// no checkpoint is. Errors: FailedPrecondition on all ranks no rank can read the checkpoint, which
// is named; also those of the group.
absl::StatusOr<int64_t> TakeBest(const std::optional<v1::Checkpoint>& best,
                                 const v1::CheckpointManifest& now, int64_t step, RankModel& model,
                                 engine::Group& group);

}  // namespace dp::trainer
