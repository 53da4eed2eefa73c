#include "worker/engine/device/cuda/kernels/cuda_for_each.h"
#include "worker/engine/device/cuda/kernels/cuda_gather.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"

namespace dp::engine::cuda {
namespace {

// All pixels share one map, so each block computes its 256 possible results.
__device__ void FillPixelTable(float mean, float std, float* table) {
  static_assert(kBlockThreads == 256);
  table[threadIdx.x] = (static_cast<float>(threadIdx.x) / 255.0f - mean) / std;
  __syncthreads();
}

// Block (x, y): pixels [256 y, 256 y + 256) of row x of the batch.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    GatherImagesKernel(ImageSet set, const int64_t* samples, const StepInput* step, T* images,
                       int32_t* labels) {
  __shared__ float table[256];
  FillPixelTable(set.mean, set.std, table);
  const int64_t row = blockIdx.x;
  const int64_t pixel = static_cast<int64_t>(blockIdx.y) * kBlockThreads + threadIdx.x;
  const bool padding = row >= step->count;
  const int64_t sample = padding ? 0 : samples[row];
  if (pixel == 0) labels[row] = padding ? 0 : set.labels[sample];
  if (pixel >= set.pixels) return;
  const float value = padding ? 0.0f : table[set.images[sample * set.pixels + pixel]];
  images[row * set.pixels + pixel] = FromFloat<T>(value);
}

struct GatherTokensOf {
  TokenSet set;
  const int64_t* samples;
  const StepInput* step;
  int32_t* tokens;
  int32_t* labels;

  template <int N>
  __device__ void At(int64_t first) const {
#pragma unroll
    for (int i = 0; i < N; ++i) One(first + i);
  }

  __device__ void One(int64_t element) const {
    const int64_t row = element / set.tokens_per_sample;
    const bool padding = row >= step->count;
    const int64_t at = padding ? 0 : set.windows[samples[row]] + element % set.tokens_per_sample;
    tokens[element] = padding ? 0 : set.tokens[at];
    labels[element] = padding ? 0 : set.tokens[at + 1];
  }
};

}  // namespace

template <typename T>
cudaError_t GatherImages(cudaStream_t stream, const ImageSet& set, const int64_t* samples,
                         int64_t batch_size, const StepInput* step, T* images, int32_t* labels) {
  if (batch_size == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(batch_size), BlocksFor(set.pixels, kBlockThreads));
  return Launch(stream, {grid, kBlockThreads}, GatherImagesKernel<T>, set, samples, step, images,
                labels);
}
template cudaError_t GatherImages(cudaStream_t, const ImageSet&, const int64_t*, int64_t,
                                  const StepInput*, float*, int32_t*);
template cudaError_t GatherImages(cudaStream_t, const ImageSet&, const int64_t*, int64_t,
                                  const StepInput*, bf16*, int32_t*);

cudaError_t GatherTokens(cudaStream_t stream, const TokenSet& set, const int64_t* samples,
                         int64_t batch_size, const StepInput* step, int32_t* tokens,
                         int32_t* labels) {
  return ForEach<1>(stream, batch_size * set.tokens_per_sample,
                    GatherTokensOf{set, samples, step, tokens, labels});
}

}  // namespace dp::engine::cuda
