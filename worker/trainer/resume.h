#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dp/v1/checkpoints.pb.h"
#include "worker/engine/collectives/group.h"
#include "worker/trainer/progress.h"
#include "worker/trainer/rank_model.h"

namespace dp::trainer {

struct Resumed {
  Position position;
  std::string path;
  std::string message;  // what is not as it was, for people; empty where everything is
};

// Makes weights, the optimizer's state and position those of the first of `points` that any rank
// can read, on every rank: one rank reads it, from its own host's files, and sends it to the
// others. Every rank calls it with the same points; `now` is the manifest that it would write
// itself. Says in the log what it could not read. None where there are no points. Errors:
// FailedPrecondition the training is another one, or no rank can read any of them, the same on all
// ranks; the group's errors.
absl::StatusOr<std::optional<Resumed>> Resume(const std::vector<ResumePoint>& points,
                                              const v1::CheckpointManifest& now, RankModel& model,
                                              engine::Group& group);

// Whether a job that starts at `position` of another one has any step of its own to do.
// Errors: FailedPrecondition it has none.
absl::Status CheckSomethingLeft(const Position& position, int64_t steps_total);

}  // namespace dp::trainer
