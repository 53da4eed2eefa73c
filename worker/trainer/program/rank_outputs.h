#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "client/connection.h"
#include "client/pause.h"
#include "proto/weights/safetensors.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/model/rank_model.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

// Adds the field of the job file that names the place of a file, because the user can change that
// field. A rejection by the coordinator (FailedPrecondition) is not the place's fault, and stays.
absl::Status BlamePlace(absl::string_view field, const absl::Status& status);

// The results of a training that is done, by rank 0: the weights, in a file and with the
// coordinator, and the trace. The arguments outlive it. Not thread-safe.
class RankOutputs {
 public:
  // `submitted_at`: when the job was.
  RankOutputs(const TrainingPlan& plan, const Environment& environment, absl::Time submitted_at)
      : plan_(plan), environment_(environment), submitted_at_(submitted_at) {}

  // Finds a file that cannot be written, before the training rather than after it: for weights of
  // `weight_bytes`. Errors: name the field and the path; AlreadyExists a file that is none of
  // weights lies there, such as one of the job's data.
  absl::Status Check(int64_t weight_bytes) const;

  // The weights after `steps` steps, with the description of their model. Weights that the
  // coordinator does not take are logged: the training is complete without that. Errors: those of
  // PlaceWeights, with the field, and where the weights are instead; the device's.
  absl::Status WriteWeights(const RankModel& model, int64_t steps,
                            const SafetensorsMetadata& description, client::Connection& connection,
                            const Clock& clock, client::Pause& pause) const;
  // Errors: the system's, with the field and the path.
  absl::Status WriteTrace(const std::string& trace) const;

 private:
  // Whether the coordinator keeps the weights now.
  bool Publish(const std::string& encoded, int64_t steps, client::Connection& connection,
               const Clock& clock, client::Pause& pause) const;

  const TrainingPlan& plan_;
  const Environment& environment_;
  const absl::Time submitted_at_;
};

}  // namespace dp::trainer
