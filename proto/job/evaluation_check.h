#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/model/shape_check.h"
#include "dp/v1/job_spec.pb.h"
#include "proto/job/field_check.h"

// The fields that evaluations use: train.metrics, train.earlyStop and train.checkpoint.best. Pure.

namespace dp {

// Checks that each metric goes with the loss and the data, and that there are evaluations.
// Errors: InvalidArgument names the field, the value and the remedy, at the field's place.
absl::Status CheckEvaluations(const v1::TrainSpec& train, const FieldOrigins& origins);

// Checks that the model gives few enough values for a confusion matrix, and enough for the five
// largest. Errors: as above. The functions of one field are for programs that have no section.
absl::Status CheckMeasures(const v1::TrainSpec& train, const model::CheckedLayer& last,
                           const FieldOrigins& origins);
absl::Status CheckConfusionMatrix(const model::CheckedLayer& last);
// `path` is the field that names the metric.
absl::Status CheckWatched(const std::string& path, absl::string_view metric,
                          const model::CheckedLayer& last);

}  // namespace dp
