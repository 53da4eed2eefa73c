#include "worker/engine/device/cuda/arrays/cuda_batch_norm.h"

#include "worker/engine/device/cuda/kernels/cuda_block_sum.h"
#include "worker/engine/device/cuda/kernels/cuda_for_each.h"

namespace dp::engine::cuda {
namespace {

// The values of a channel are cut into chunks, each for a block.
constexpr int64_t kChunkLeast = 4096;
constexpr int64_t kChunksMost = 256;

Chunks ChunksOf(const ChannelArray& shape) {
  return CutRows(shape.samples * shape.positions, kChunkLeast, kChunksMost);
}

// Goes through every kBlockThreads-th of the values of a channel, without a division for each.
class ChannelWalk {
 public:
  __device__ ChannelWalk(const ChannelArray& shape, int64_t channel, int64_t first)
      : shape_(shape),
        channel_(channel),
        sample_(first / shape.positions),
        position_(first % shape.positions),
        samples_ahead_(kBlockThreads / shape.positions),
        positions_ahead_(kBlockThreads % shape.positions) {}

  // The place of the value in the array.
  __device__ int64_t index() const {
    return (sample_ * shape_.channels + channel_) * shape_.positions + position_;
  }
  __device__ void Advance() {
    sample_ += samples_ahead_;
    position_ += positions_ahead_;
    if (position_ < shape_.positions) return;
    position_ -= shape_.positions;
    ++sample_;
  }

 private:
  const ChannelArray& shape_;
  const int64_t channel_;
  int64_t sample_, position_;
  const int64_t samples_ahead_, positions_ahead_;
};

// The values of block (channel, chunk).
struct ChunkOfChannel {
  int64_t channel;
  int64_t begin;  // among the channel's values
  int64_t end;

  __device__ ChunkOfChannel(const ChannelArray& shape, int64_t per_chunk)
      : channel(blockIdx.x),
        begin(blockIdx.y * per_chunk),
        end(min(begin + per_chunk, shape.samples * shape.positions)) {}

  // Calls each(index) for the values of this thread, and sums what it returns over the block.
  template <typename Each>
  __device__ double Sum(const ChannelArray& shape, const Each& each) const {
    double mine = 0;
    ChannelWalk walk(shape, channel, begin + threadIdx.x);
    for (int64_t i = begin + threadIdx.x; i < end; i += kBlockThreads) {
      mine += each(walk.index());
      walk.Advance();
    }
    return BlockSum(mine);
  }
};

__global__ void __launch_bounds__(kBlockThreads)
    ChannelStatisticsKernel(ChannelArray shape, const float* values, int64_t per_chunk,
                            double* chunks) {
  const ChunkOfChannel chunk(shape, per_chunk);
  const auto count = static_cast<double>(chunk.end - chunk.begin);
  const double mean =
      chunk.Sum(shape, [&](int64_t i) { return static_cast<double>(values[i]); }) / count;
  const double squares = chunk.Sum(shape, [&](int64_t i) {
    const double distance = values[i] - mean;
    return distance * distance;
  });
  if (threadIdx.x != 0) return;
  double* const packed = chunks + blockIdx.y * PackedSize(shape.channels);
  packed[0] = count;
  packed[1 + chunk.channel] = mean;
  packed[1 + shape.channels + chunk.channel] = squares;
}

// A batch of one channel.
struct ChannelBatch {
  double count = 0, mean = 0, squares = 0;

  __device__ ChannelBatch(int64_t channels, int64_t channel, int64_t parts, const double* packed) {
    for (int64_t part = 0; part < parts; ++part) {
      const double* const its = packed + part * PackedSize(channels);
      if (its[0] == 0) continue;
      const double total = count + its[0], distance = its[1 + channel] - mean;
      mean += distance * its[0] / total;
      squares += its[1 + channels + channel] + distance * distance * count * its[0] / total;
      count = total;
    }
  }
};

struct PackOf {
  int64_t channels;
  int64_t parts;
  const double* from;
  double* packed;

  template <int N>
  __device__ void At(int64_t channel) const {
    const ChannelBatch batch(channels, channel, parts, from);
    if (channel == 0) packed[0] = batch.count;
    packed[1 + channel] = batch.mean;
    packed[1 + channels + channel] = batch.squares;
  }
};

struct CombineOf {
  int64_t channels;
  int64_t parts;
  const double* packed;
  double eps;
  double share;
  BatchNormArrays arrays;
  float* running_mean;
  float* running_var;

  template <int N>
  __device__ void At(int64_t channel) const {
    const ChannelBatch batch(channels, channel, parts, packed);
    if (channel == 0) *arrays.count = batch.count;
    arrays.mean[channel] = batch.mean;
    arrays.inverse_deviation[channel] = 1 / sqrt(batch.squares / batch.count + eps);
    Move(running_mean[channel], batch.mean);
    Move(running_var[channel], batch.squares / (batch.count - 1));
  }

  __device__ void Move(float& running, double to) const {
    running = static_cast<float>((1 - share) * running + share * to);
  }
};

struct TakeRunningOf {
  const float* running_mean;
  const float* running_var;
  double eps;
  BatchNormArrays arrays;

  template <int N>
  __device__ void At(int64_t channel) const {
    arrays.mean[channel] = running_mean[channel];
    arrays.inverse_deviation[channel] = 1 / sqrt(running_var[channel] + eps);
  }
};

// Index is the smallest type that counts the elements: a division by it is what the kernels wait
// for.
template <typename Index>
struct ForwardOf {
  Index channels, positions;
  const float* in;
  const float* weight;
  const float* bias;
  BatchNormArrays arrays;
  float* out;

  template <int N>
  __device__ void At(int64_t i) const {
    const Index channel = static_cast<Index>(i) / positions % channels;
    const double slope = weight[channel] * arrays.inverse_deviation[channel];
    const auto shift = static_cast<float>(bias[channel] - arrays.mean[channel] * slope);
    out[i] = in[i] * static_cast<float>(slope) + shift;
  }
};

template <typename Index>
struct BackwardOf {
  Index channels, positions;
  const float* in;
  const float* out_gradient;
  const float* weight;
  BatchNormArrays arrays;
  const double* sums;
  float* in_gradient;

  template <int N>
  __device__ void At(int64_t i) const {
    const Index channel = static_cast<Index>(i) / positions % channels;
    const double inverse = arrays.inverse_deviation[channel], count = *arrays.count;
    const double mean = sums[channel] / count, slope = sums[channels + channel] / count;
    const double normalized = (in[i] - arrays.mean[channel]) * inverse;
    in_gradient[i] = static_cast<float>(weight[channel] * inverse *
                                        (out_gradient[i] - mean - normalized * slope));
  }
};

__global__ void __launch_bounds__(kBlockThreads)
    ChannelGradientsKernel(ChannelArray shape, const float* in, const float* out_gradient,
                           BatchNormArrays arrays, int64_t per_chunk, double* chunks) {
  const ChunkOfChannel chunk(shape, per_chunk);
  const double mean = arrays.mean[chunk.channel], inverse = arrays.inverse_deviation[chunk.channel];
  const double plain =
      chunk.Sum(shape, [&](int64_t i) { return static_cast<double>(out_gradient[i]); });
  const double sloped =
      chunk.Sum(shape, [&](int64_t i) { return out_gradient[i] * (in[i] - mean) * inverse; });
  if (threadIdx.x != 0) return;
  double* const sums = chunks + blockIdx.y * 2 * shape.channels;
  sums[chunk.channel] = plain;
  sums[shape.channels + chunk.channel] = sloped;
}

struct AddChunksOf {
  int64_t width;
  int64_t chunks;
  const double* from;
  double* sums;

  template <int N>
  __device__ void At(int64_t column) const {
    double sum = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) sum += from[chunk * width + column];
    sums[column] = sum;
  }
};

struct AddGradientsOf {
  int64_t channels;
  const double* sums;
  float* weight_gradient;
  float* bias_gradient;

  template <int N>
  __device__ void At(int64_t channel) const {
    bias_gradient[channel] += static_cast<float>(sums[channel]);
    weight_gradient[channel] += static_cast<float>(sums[channels + channel]);
  }
};

bool IsSmall(const ChannelArray& shape) { return shape.size() <= INT32_MAX; }

Grid BlocksOf(const ChannelArray& shape, const Chunks& chunks) {
  return {dim3(static_cast<unsigned>(shape.channels), static_cast<unsigned>(chunks.count)),
          kBlockThreads};
}

}  // namespace

int64_t BatchNormWorkspace(const ChannelArray& shape) {
  return ChunksOf(shape).count * PackedSize(shape.channels);
}

cudaError_t ChannelStatistics(cudaStream_t stream, const ChannelArray& shape, const float* values,
                              double* workspace, double* packed) {
  const Chunks chunks = ChunksOf(shape);
  const cudaError_t launched = Launch(stream, BlocksOf(shape, chunks), ChannelStatisticsKernel,
                                      shape, values, chunks.rows_per_chunk, workspace);
  if (launched != cudaSuccess) return launched;
  return ForEach<1>(stream, shape.channels,
                    PackOf{shape.channels, chunks.count, workspace, packed});
}

cudaError_t CombineStatistics(cudaStream_t stream, int64_t channels, int64_t parts,
                              const double* packed, double eps, double share,
                              BatchNormArrays arrays, float* running_mean, float* running_var) {
  return ForEach<1>(
      stream, channels,
      CombineOf{channels, parts, packed, eps, share, arrays, running_mean, running_var});
}

cudaError_t TakeRunning(cudaStream_t stream, int64_t channels, const float* running_mean,
                        const float* running_var, double eps, BatchNormArrays arrays) {
  return ForEach<1>(stream, channels, TakeRunningOf{running_mean, running_var, eps, arrays});
}

cudaError_t BatchNormForward(cudaStream_t stream, const ChannelArray& shape, const float* in,
                             const float* weight, const float* bias, BatchNormArrays arrays,
                             float* out) {
  const auto forward = [&]<typename Index>(Index) {
    return ForEach<1>(
        stream, shape.size(),
        ForwardOf<Index>{static_cast<Index>(shape.channels), static_cast<Index>(shape.positions),
                         in, weight, bias, arrays, out});
  };
  return IsSmall(shape) ? forward(uint32_t{}) : forward(int64_t{});
}

cudaError_t ChannelGradients(cudaStream_t stream, const ChannelArray& shape, const float* in,
                             const float* out_gradient, BatchNormArrays arrays, double* workspace,
                             double* sums) {
  const Chunks chunks = ChunksOf(shape);
  const cudaError_t launched =
      Launch(stream, BlocksOf(shape, chunks), ChannelGradientsKernel, shape, in, out_gradient,
             arrays, chunks.rows_per_chunk, workspace);
  if (launched != cudaSuccess) return launched;
  const int64_t width = 2 * shape.channels;
  return ForEach<1>(stream, width, AddChunksOf{width, chunks.count, workspace, sums});
}

cudaError_t AddChannelGradients(cudaStream_t stream, int64_t channels, const double* sums,
                                float* weight_gradient, float* bias_gradient) {
  return ForEach<1>(stream, channels,
                    AddGradientsOf{channels, sums, weight_gradient, bias_gradient});
}

cudaError_t BatchNormBackward(cudaStream_t stream, const ChannelArray& shape, const float* in,
                              const float* out_gradient, const float* weight,
                              BatchNormArrays arrays, const double* sums, float* in_gradient) {
  const auto backward = [&]<typename Index>(Index) {
    return ForEach<1>(
        stream, shape.size(),
        BackwardOf<Index>{static_cast<Index>(shape.channels), static_cast<Index>(shape.positions),
                          in, out_gradient, weight, arrays, sums, in_gradient});
  };
  return IsSmall(shape) ? backward(uint32_t{}) : backward(int64_t{});
}

}  // namespace dp::engine::cuda
