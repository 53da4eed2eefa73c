#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/model/shape_check.h"
#include "proto/weights/safetensors.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

// Copies tensors of `encoded`, a safetensors file, to the values of the same names. `values` has
// the layout LayOut(layers). Returns for people how many tensors were taken, and which were not.
//
// - All names in the file may have one more prefix, as "module." or "transformer.".
// - Tensors of F32, F64, F16 and BF16 are converted.
// - Files of GPT-2 by Hugging Face have the matrices of linear layers as inputs x outputs. Where a
//   matrix is so, all of the layers c_attn, c_proj and c_fc are read so.
// - A layer of positions takes the first rows, if the file has more than the context.
//
// Errors: InvalidArgument names the tensor that is missing or does not fit, and what the file has
// instead; or a pattern that matches no tensor.
absl::StatusOr<std::string> TakeInitialWeights(absl::string_view encoded,
                                               absl::Span<const std::string> drawn,
                                               absl::Span<const model::CheckedLayer> layers,
                                               absl::Span<float> values);

// Copies all tensors of a model in the same way, from weights that it was trained to.
// Errors: InvalidArgument names the tensor that is missing or does not fit, and what there is
// instead.
absl::Status TakeTrainedWeights(const std::map<std::string, EncodedTensor>& tensors,
                                absl::Span<const model::CheckedLayer> layers,
                                absl::Span<float> values);

// The values of a model of these layers, in its layout: drawn from `seed` as by Initialize, then
// read from the file. Logs what was taken. Empty if there is no file. Errors: those of
// TakeInitialWeights and the system's, with the file's path.
absl::StatusOr<std::vector<float>> ReadInitialWeights(const InitialWeights& init, uint64_t seed,
                                                      absl::Span<const model::CheckedLayer> layers);

}  // namespace dp::trainer
