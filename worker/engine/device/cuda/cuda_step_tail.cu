#include "worker/engine/device/cuda/cuda_launch_kernel.h"
#include "worker/engine/device/cuda/cuda_step_tail.h"

namespace dp::engine::cuda {
namespace {

__global__ void WriteTailKernel(const LossSums* sums, const StepInput* step, float* tail) {
  tail[0] = static_cast<float>(sums->loss_sum) * step->gradient_scale;
  tail[1] = step->leaving;
}

}  // namespace

cudaError_t WriteTail(cudaStream_t stream, const LossSums* sums, const StepInput* step,
                      float* tail) {
  return Launch(stream, {1, 1}, WriteTailKernel, sums, step, tail);
}

}  // namespace dp::engine::cuda
