#pragma once

#include "worker/engine/device/cuda/attention/cuda_attention.h"

namespace dp::engine::cuda {

// Turns the queries and keys of each token by the angles of nn/rotary_angles.h, and copies the
// values. `in` and `out` are samples x tokens x 3 features, as attention takes them. `table` has
// the cosines of tokens x half of a head's features, then the sines. `backwards` turns back, which
// is the gradient.
template <typename T>
cudaError_t Rotate(cudaStream_t stream, const T* in, const float* table,
                   const AttentionShape& shape, bool backwards, T* out);

}  // namespace dp::engine::cuda
