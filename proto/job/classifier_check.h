#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "base/model/layer_spec.h"
#include "base/model/shape_check.h"
#include "dp/v1/job_spec.pb.h"

// Whether a model fits samples with classes or targets. Pure.

namespace dp {

// The shape and classes of a set of samples, which a model must fit.
struct SampleForm {
  model::Shape shape;
  int classes = 0;            // 0: not known here
  bool exactly = false;       // train.data.classes says so; otherwise the labels show as many
  model::Shape targets = {};  // the numbers to predict; empty: labels
  // The file has rows and columns alone, of which `shape` makes an image of one channel.
  bool two_axes = false;
};

// The model's layers with their shapes. It must give one value for each target, or for each class;
// where the number of classes is not given exactly, it may give more. A linear layer at the end
// that leaves its outputs open has one for each target or class. Without an exact number of classes
// it has at least 10. `any_output`: the loss takes whatever the model gives.
// Errors: InvalidArgument as model::CheckClassifier.
absl::StatusOr<std::vector<model::CheckedLayer>> CheckFits(
    const std::vector<model::LayerSpec>& layers, const SampleForm& form, bool any_output = false);

// Whether train.loss.crossEntropy.classWeights has one number for each value of the last layer.
// `count` is 0 without weights. Errors: InvalidArgument names both numbers.
absl::Status CheckClassWeights(int count, const model::CheckedLayer& last);

}  // namespace dp
