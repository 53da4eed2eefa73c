#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "worker/engine/ddp/bucket_plan.h"
#include "worker/engine/device/cuda/cuda_layers.h"

namespace dp::engine::cuda {

// Cuts a step into pieces, each a range of the program's operations, so that after each piece at
// least one bucket of gradients is complete and may be reduced while the next piece is computed.
// Gives the end of each piece; a piece begins where the one before it ends, the first one at 0, and
// has the loss. Without buckets there is one. Buckets are of the program's layout, in order, and
// may have one parameter more, which the loss completes. Pure.
std::vector<size_t> CutStep(const LayerProgram& program, absl::Span<const Bucket> buckets);

}  // namespace dp::engine::cuda
