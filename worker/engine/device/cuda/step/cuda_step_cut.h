#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "worker/engine/ddp/bucket_plan.h"
#include "worker/engine/device/cuda/layers/cuda_layers.h"

namespace dp::engine::cuda {

// Cuts a step into pieces, each a range of the program's operations. After each piece, except
// perhaps the last, at least one bucket of gradients is complete. It may be reduced while the next
// piece is computed. Returns the end of each piece. A piece begins where the one before it ends;
// the first begins at 0 and contains the loss. Without buckets there is one piece. Buckets are of
// the program's layout, in order, and may have one parameter more, which the loss completes. Pure.
std::vector<size_t> CutStep(const LayerProgram& program, absl::Span<const Bucket> buckets);

}  // namespace dp::engine::cuda
