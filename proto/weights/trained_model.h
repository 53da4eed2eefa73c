#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dp/v1/inference.pb.h"
#include "dp/v1/job_spec.pb.h"
#include "proto/job/classifier_check.h"
#include "proto/weights/safetensors.h"

// The description of a model in a file of its weights. Pure.

namespace dp {

// The samples that a model was trained on.
struct TrainedOn {
  SampleForm form;                       // of texts: the tokens of a sample, and the vocabulary
  std::vector<std::string> class_names;  // in the order of their numbers; empty: none are known
  int ranks = 1;                         // that trained it
};

// The model of a job whose defaults are filled in. Jobs that compute the same model from the same
// form of samples have the same description, wherever their files are.
v1::TrainedModel DescribeModel(const v1::JobSpec& job, const TrainedOn& samples);

// The texts to write beside the weights. Some readers of PyTorch want to know that the tensors are
// of its kind, so they say that, too.
SafetensorsMetadata MetadataOf(const v1::TrainedModel& model);

// The model that such texts describe; none if they describe none, as those of other programs.
// Errors: InvalidArgument the description is damaged; Unimplemented it is of a later release.
absl::StatusOr<std::optional<v1::TrainedModel>> ModelIn(const SafetensorsMetadata& metadata);

// A job that computes the model. It trains nothing, and its data has no places.
v1::JobSpec JobOf(const v1::TrainedModel& model);

}  // namespace dp
