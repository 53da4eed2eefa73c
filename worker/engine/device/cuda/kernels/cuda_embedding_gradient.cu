#include "worker/engine/device/cuda/kernels/cuda_embedding.h"
#include "worker/engine/device/cuda/kernels/cuda_embedding_chunks.h"
#include "worker/engine/device/cuda/kernels/cuda_for_each.h"
#include "worker/engine/device/cuda/kernels/cuda_sort.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"

namespace dp::engine::cuda {
namespace {

constexpr int64_t kPartAlignment = 256;

// Features of one thread, and threads of a block. A block goes over one chunk.
constexpr int kFeatures = 8;
constexpr int kChunkThreads = 128;

// Gives out the parts of the workspace. With a null workspace it only counts their bytes.
class Parts {
 public:
  explicit Parts(void* workspace) : base_(static_cast<char*>(workspace)) {}

  template <typename T>
  T* Take(int64_t count) {
    char* part = base_ == nullptr ? nullptr : base_ + bytes_;
    bytes_ += DivideUp(count * static_cast<int64_t>(sizeof(T)), kPartAlignment) * kPartAlignment;
    return reinterpret_cast<T*>(part);
  }
  int64_t bytes() const { return bytes_; }

 private:
  char* const base_;
  int64_t bytes_ = 0;
};

struct Workspace {
  int32_t* tokens;  // of each row, and sorted
  int32_t* sorted_tokens;
  int32_t* rows;  // in the order of sorted_tokens
  int32_t* sorted_rows;
  float* parts;  // chunks x kEmbeddingParts x features
  char* sort;
  int64_t bytes;  // of the parts before `sort`, which takes the rest
};

Workspace WorkspaceIn(void* memory, EmbeddingShape shape) {
  Parts parts(memory);
  const int64_t rows = shape.rows();
  Workspace workspace;
  workspace.tokens = parts.Take<int32_t>(rows);
  workspace.sorted_tokens = parts.Take<int32_t>(rows);
  workspace.rows = parts.Take<int32_t>(rows);
  workspace.sorted_rows = parts.Take<int32_t>(rows);
  workspace.parts = parts.Take<float>(EmbeddingChunks(rows) * kEmbeddingParts * shape.features);
  workspace.sort = parts.Take<char>(0);
  workspace.bytes = parts.bytes();
  return workspace;
}

// Writes the pairs to be sorted: each row's token, and the row.
struct RowsOf {
  const int32_t* tokens;
  int64_t tokens_per_sample;
  const StepInput* step;
  Workspace to;

  template <int N>
  __device__ void At(int64_t row) const {
    static_assert(N == 1);
    const bool padding = row / tokens_per_sample >= step->count;
    to.tokens[row] = padding ? 0 : tokens[row];
    to.rows[row] = static_cast<int32_t>(row);
  }
};

int BitsOf(int64_t vocabulary) {
  int bits = 1;
  while ((int64_t{1} << bits) < vocabulary) ++bits;
  return bits;
}

// Stable, so that the rows of a token keep their order.
cudaError_t SortRows(cudaStream_t stream, EmbeddingShape shape, const Workspace& workspace,
                     int64_t sort_bytes) {
  return SortPairs(
      stream, shape.rows(), BitsOf(shape.vocabulary),
      {workspace.tokens, workspace.sorted_tokens, workspace.rows, workspace.sorted_rows},
      workspace.sort, sort_bytes);
}

template <int N>
__device__ void AddTo(float* to, const Vector<float, N>& sum) {
  auto total = Vector<float, N>::Load(to);
#pragma unroll
  for (int i = 0; i < N; ++i) total.values[i] += sum.values[i];
  total.Store(to);
}

// Block (x, y): chunk x, features from y blockDim.x N on. Sums the chunk's rows, run by run.
template <int N, typename T>
__global__ void __launch_bounds__(kChunkThreads)
    ChunkKernel(const T* out_gradient, EmbeddingShape shape, Workspace workspace,
                float* weight_gradient) {
  const int64_t feature = (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  if (feature >= shape.features) return;
  const EmbeddingChunk chunk(workspace.sorted_tokens, shape.rows(), blockIdx.x);
  float* parts = workspace.parts + blockIdx.x * kEmbeddingParts * shape.features + feature;
  bool began_before = chunk.BeginsInside();
  Vector<float, N> sum = {};
  for (int64_t place = chunk.begin; place < chunk.end; ++place) {
    const int64_t row = workspace.sorted_rows[place];
    const auto gradient = Vector<T, N>::Load(out_gradient + row * shape.features + feature);
#pragma unroll
    for (int i = 0; i < N; ++i) sum.values[i] += gradient.values[i];
    const bool ends = chunk.EndsRun(place);
    if (!ends && place + 1 < chunk.end) continue;
    if (began_before) {
      sum.Store(parts + kHeadPart * shape.features);
    } else if (ends) {
      AddTo(weight_gradient + chunk.tokens[place] * shape.features + feature, sum);
    } else {
      sum.Store(parts + kTailPart * shape.features);
    }
    sum = {};
    began_before = false;
  }
}

// Block (x, y) as above. Adds up the run, if any, that begins in chunk x and goes on behind it.
template <int N>
__global__ void __launch_bounds__(kChunkThreads)
    LongRunKernel(EmbeddingShape shape, Workspace workspace, float* weight_gradient) {
  const int64_t feature = (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  if (feature >= shape.features) return;
  const EmbeddingChunk chunk(workspace.sorted_tokens, shape.rows(), blockIdx.x);
  if (!chunk.BeginsLongRun()) return;
  const int64_t token = chunk.tokens[chunk.end - 1];
  const int64_t stride = kEmbeddingParts * shape.features;
  const float* parts = workspace.parts + blockIdx.x * stride + feature;
  auto sum = Vector<float, N>::Load(parts + kTailPart * shape.features);
  for (int64_t begin = chunk.end; begin < shape.rows() && chunk.tokens[begin] == token;
       begin += kEmbeddingChunk) {
    parts += stride;
    const auto part = Vector<float, N>::Load(parts + kHeadPart * shape.features);
#pragma unroll
    for (int i = 0; i < N; ++i) sum.values[i] += part.values[i];
  }
  AddTo(weight_gradient + token * shape.features + feature, sum);
}

template <int N, typename T>
cudaError_t SumRuns(cudaStream_t stream, const T* out_gradient, EmbeddingShape shape,
                    const Workspace& workspace, float* weight_gradient) {
  const dim3 grid(static_cast<unsigned>(EmbeddingChunks(shape.rows())),
                  BlocksFor(shape.features, int64_t{kChunkThreads} * N));
  const cudaError_t result = Launch(stream, {grid, kChunkThreads}, ChunkKernel<N, T>, out_gradient,
                                    shape, workspace, weight_gradient);
  if (result != cudaSuccess) return result;
  return Launch(stream, {grid, kChunkThreads}, LongRunKernel<N>, shape, workspace, weight_gradient);
}

}  // namespace

int64_t EmbeddingBackwardWorkspace(EmbeddingShape shape) {
  int64_t sort_bytes = 0;
  const cudaError_t asked = SortWorkspace(shape.rows(), BitsOf(shape.vocabulary), &sort_bytes);
  return WorkspaceIn(nullptr, shape).bytes + (asked == cudaSuccess ? sort_bytes : 0);
}

template <typename T>
cudaError_t EmbeddingBackward(cudaStream_t stream, const int32_t* tokens, const T* out_gradient,
                              EmbeddingShape shape, const StepInput* step,
                              EmbeddingWorkspace workspace, float* weight_gradient) {
  if (shape.rows() == 0) return cudaSuccess;
  const Workspace parts = WorkspaceIn(workspace.memory, shape);
  if (workspace.bytes < parts.bytes) return cudaErrorInvalidValue;
  cudaError_t result =
      ForEach<1>(stream, shape.rows(), RowsOf{tokens, shape.tokens_per_sample, step, parts});
  if (result == cudaSuccess) result = SortRows(stream, shape, parts, workspace.bytes - parts.bytes);
  if (result != cudaSuccess) return result;
  return shape.features % kFeatures == 0
             ? SumRuns<kFeatures>(stream, out_gradient, shape, parts, weight_gradient)
             : SumRuns<1>(stream, out_gradient, shape, parts, weight_gradient);
}
template cudaError_t EmbeddingBackward(cudaStream_t, const int32_t*, const float*, EmbeddingShape,
                                       const StepInput*, EmbeddingWorkspace, float*);
template cudaError_t EmbeddingBackward(cudaStream_t, const int32_t*, const bf16*, EmbeddingShape,
                                       const StepInput*, EmbeddingWorkspace, float*);

}  // namespace dp::engine::cuda
