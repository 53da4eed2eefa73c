#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dp/v1/checkpoints.pb.h"
#include "worker/engine/collectives/group.h"
#include "worker/trainer/model/progress.h"
#include "worker/trainer/model/rank_model.h"

namespace dp::trainer {

struct Resumed {
  Position position;
  std::string path;
  std::string message;  // changes, for people; empty if there are none
};

// Restores weights, optimizer state and position on every rank from the first of `points` that any
// rank can read. One rank reads the files on its own host and broadcasts them. Every rank calls
// this with the same points. `now` is the manifest that the training would write itself. Logs the
// points that it could not read. Returns nullopt if there are no points.
// Errors: FailedPrecondition on all ranks the checkpoint belongs to a different training, or no
// rank can read any point; also those of the group.
absl::StatusOr<std::optional<Resumed>> Resume(const std::vector<ResumePoint>& points,
                                              const v1::CheckpointManifest& now, RankModel& model,
                                              engine::Group& group);

// Whether a job that resumes at `position` of another job has steps of its own left. Errors:
// FailedPrecondition none is left, or that training has stopped early, as `stop` says.
absl::Status CheckSomethingLeft(const Position& position, int64_t steps_total,
                                const std::optional<EarlyStopPlan>& stop = {});

}  // namespace dp::trainer
