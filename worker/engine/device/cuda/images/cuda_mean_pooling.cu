#include "worker/engine/device/cuda/images/cuda_mean_pooling.h"

#include "worker/engine/device/cuda/images/cuda_samples.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"

namespace dp::engine::cuda {
namespace {

// The first of some neighbouring channels of a pixel.
struct Place {
  int sample;
  int row;
  int column;
  int channel;

  __device__ Place(int64_t first, const MeanPoolingShape& shape, int64_t rows, int64_t columns) {
    const int at = static_cast<int>(first), channels = static_cast<int>(shape.channels);
    const int pixel = at / channels;
    channel = at % channels;
    column = pixel % static_cast<int>(columns);
    row = pixel / static_cast<int>(columns) % static_cast<int>(rows);
    sample = pixel / static_cast<int>(columns) / static_cast<int>(rows);
  }
};

// N neighbouring channels of one output pixel; the number of channels is a multiple of N.
template <typename T>
struct ForwardOf {
  const T* in;
  MeanPoolingShape shape;
  T* out;

  template <int N>
  __device__ void At(int64_t first) const {
    const Place at(first, shape, shape.rows.out, shape.columns.out);
    const T* image = in + at.sample * shape.rows.in * shape.columns.in * shape.channels;
    const int64_t begin = shape.columns.Begin(at.column), end = shape.columns.End(at.column);
    Vector<T, N> sum = {};
    for (int64_t row = shape.rows.Begin(at.row); row < shape.rows.End(at.row); ++row) {
      for (int64_t column = begin; column < end; ++column) {
        const int64_t pixel = row * shape.columns.in + column;
        const auto value = Vector<T, N>::Load(image + pixel * shape.channels + at.channel);
#pragma unroll
        for (int i = 0; i < N; ++i) sum.values[i] += value.values[i];
      }
    }
    const auto places =
        static_cast<float>(shape.rows.Extent(at.row) * shape.columns.Extent(at.column));
#pragma unroll
    for (int i = 0; i < N; ++i) sum.values[i] /= places;
    sum.Store(out + first);
  }
};

// N neighbouring channels of one input pixel.
template <typename T>
struct BackwardOf {
  const T* out_gradient;
  MeanPoolingShape shape;
  T* in_gradient;

  template <int N>
  __device__ void At(int64_t first) const {
    const Place at(first, shape, shape.rows.in, shape.columns.in);
    const T* image = out_gradient + at.sample * shape.rows.out * shape.columns.out * shape.channels;
    const int64_t begin = shape.columns.First(at.column), last = shape.columns.Last(at.column);
    Vector<T, N> sum = {};
    for (int64_t row = shape.rows.First(at.row); row <= shape.rows.Last(at.row); ++row) {
      for (int64_t column = begin; column <= last; ++column) {
        const int64_t pixel = row * shape.columns.out + column;
        const auto value = Vector<T, N>::Load(image + pixel * shape.channels + at.channel);
        const auto places =
            static_cast<float>(shape.rows.Extent(row) * shape.columns.Extent(column));
#pragma unroll
        for (int i = 0; i < N; ++i) sum.values[i] += value.values[i] / places;
      }
    }
    sum.Store(in_gradient + first);
  }
};

}  // namespace

template <typename T>
cudaError_t MeanPoolForward(cudaStream_t stream, const T* in, const MeanPoolingShape& shape,
                            T* out) {
  return ForSamples(shape, [&](int64_t first, const MeanPoolingShape& part) {
    const int64_t ins = first * (part.in_size() / part.samples);
    const int64_t outs = first * (part.out_size() / part.samples);
    return ForEachChannels(stream, part.out_size(), part.channels,
                           ForwardOf<T>{in + ins, part, out + outs});
  });
}
template cudaError_t MeanPoolForward(cudaStream_t, const float*, const MeanPoolingShape&, float*);
template cudaError_t MeanPoolForward(cudaStream_t, const bf16*, const MeanPoolingShape&, bf16*);

template <typename T>
cudaError_t MeanPoolBackward(cudaStream_t stream, const T* out_gradient,
                             const MeanPoolingShape& shape, T* in_gradient) {
  return ForSamples(shape, [&](int64_t first, const MeanPoolingShape& part) {
    const int64_t ins = first * (part.in_size() / part.samples);
    const int64_t outs = first * (part.out_size() / part.samples);
    return ForEachChannels(stream, part.in_size(), part.channels,
                           BackwardOf<T>{out_gradient + outs, part, in_gradient + ins});
  });
}
template cudaError_t MeanPoolBackward(cudaStream_t, const float*, const MeanPoolingShape&, float*);
template cudaError_t MeanPoolBackward(cudaStream_t, const bf16*, const MeanPoolingShape&, bf16*);

}  // namespace dp::engine::cuda
