#pragma once

#include "absl/types/span.h"
#include "worker/engine/nn/generator.h"

namespace dp::engine {

// Normal values around 0 from the same draws and in the same order as torch.Tensor.normal_ takes
// for float tensors of 16 values or more: blocks of 16 uniform draws, of which the first eight give
// radii and the last eight angles (Box and Muller); where the size is no multiple of 16, the last
// 16 values are drawn anew. Values equal PyTorch's but for the last bits, which depend on its
// vector instructions. Fewer than 16 values are the first ones of such a block; PyTorch draws those
// otherwise.
void FillNormal(Generator& generator, float std, absl::Span<float> values);

}  // namespace dp::engine
