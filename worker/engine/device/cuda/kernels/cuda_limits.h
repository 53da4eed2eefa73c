#pragma once

#include <cstdint>

// The largest shapes that the kernels compute. Pure.

namespace dp::engine::cuda {

// The extent of a max pooling's window, whose places then fit 8 bits.
inline constexpr int kPoolingKernelMax = 16;

// Features of a head of attention.
inline constexpr int64_t kAttentionHeadMax = 128;

}  // namespace dp::engine::cuda
