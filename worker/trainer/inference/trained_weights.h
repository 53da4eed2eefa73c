#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "dp/v1/inference.pb.h"
#include "proto/weights/safetensors.h"

namespace dp::trainer {

// Weights that a training left behind, with the job that computes their model. Movable.
struct LoadedWeights {
  std::string path;                              // for errors
  v1::JobSpec job;                               // the caller's, or that of the description
  std::optional<v1::TrainedModel> description;   // what the file says; none: nothing
  std::map<std::string, EncodedTensor> tensors;  // they borrow from `file`
  std::unique_ptr<const std::string> file;
};

// Reads a file of weights, or the directory of a checkpoint. From a checkpoint it takes the average
// of the weights, where evaluations of the job do.
// Errors: the system's, with the path; DataLoss another hash than that of `weights`, or a damaged
// checkpoint. InvalidArgument no safetensors file, or one of a model that nothing describes.
absl::StatusOr<LoadedWeights> LoadWeights(const v1::TrainedWeights& weights);

}  // namespace dp::trainer
