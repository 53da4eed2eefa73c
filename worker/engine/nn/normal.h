#pragma once

#include "absl/types/span.h"
#include "worker/engine/nn/generator.h"

namespace dp::engine {

// Fills `values` with normal values around 0. Takes the same draws in the same order as
// torch.Tensor.normal_ for float tensors of 16 values or more. Each block of 16 uniform draws gives
// eight radii, then eight angles (Box and Muller). If the size is not a multiple of 16, the last 16
// values are drawn anew. The values equal PyTorch's except for the last bits, which depend on its
// vector instructions. Fewer than 16 values are the first ones of a block; PyTorch draws those
// differently.
void FillNormal(Generator& generator, float std, absl::Span<float> values);

}  // namespace dp::engine
