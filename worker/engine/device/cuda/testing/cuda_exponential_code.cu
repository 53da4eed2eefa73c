#include "worker/engine/device/cuda/kernels/cuda_exponential.h"

// Compiled to PTX alone, in which expect_exponentials.cmake looks for instructions.

namespace dp::engine::cuda {

__global__ void ForBf16(float* x) { *x = Exp<bf16>(*x); }

}  // namespace dp::engine::cuda
