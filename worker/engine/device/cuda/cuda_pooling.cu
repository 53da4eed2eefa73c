#include "worker/engine/device/cuda/cuda_for_each.h"
#include "worker/engine/device/cuda/cuda_pooling.h"
#include "worker/engine/device/cuda/cuda_vector.h"

namespace dp::engine::cuda {
namespace {

// An element of images with channels last.
struct Place {
  int64_t sample;
  int row;
  int column;
  int64_t channel;
};

__device__ Place PlaceOf(int64_t element, int64_t channels, int rows, int columns) {
  const int64_t pixel = element / channels;
  const int64_t line = pixel / columns;
  return {line / rows, static_cast<int>(line % rows), static_cast<int>(pixel % columns),
          element % channels};
}

// N neighbouring channels of one output pixel: channels are a multiple of N.
template <typename T>
struct ForwardOf {
  const T* in;
  PoolingShape shape;
  T* out;
  uint8_t* places;

  template <int N>
  __device__ void At(int64_t first) const {
    const Place at = PlaceOf(first, shape.channels, shape.out_rows(), shape.out_columns());
    const int64_t corner =
        ((at.sample * shape.in_rows + int64_t{at.row} * shape.stride) * shape.in_columns +
         int64_t{at.column} * shape.stride) *
            shape.channels +
        at.channel;
    auto largest = Vector<T, N>::Load(in + corner);
    uint8_t place[N] = {};
    for (int k = 1; k < shape.kernel * shape.kernel; ++k) {
      const int64_t pixel = int64_t{k / shape.kernel} * shape.in_columns + k % shape.kernel;
      const auto value = Vector<T, N>::Load(in + corner + pixel * shape.channels);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if (!(value.values[i] > largest.values[i])) continue;
        largest.values[i] = value.values[i];
        place[i] = static_cast<uint8_t>(k);
      }
    }
    largest.Store(out + first);
#pragma unroll
    for (int i = 0; i < N; ++i) places[first + i] = place[i];
  }
};

// N neighbouring channels of one input pixel: goes over the windows that the pixel lies in.
template <typename T>
struct BackwardOf {
  const T* out_gradient;
  const uint8_t* places;
  const T* relu_out;
  PoolingShape shape;
  T* in_gradient;

  template <int N>
  __device__ void At(int64_t first) const {
    const Place at = PlaceOf(first, shape.channels, shape.in_rows, shape.in_columns);
    Vector<T, N> sum = {};
    const int last_row = min(at.row / shape.stride, shape.out_rows() - 1);
    const int last_column = min(at.column / shape.stride, shape.out_columns() - 1);
    for (int row = FirstWindow(at.row); row <= last_row; ++row) {
      for (int column = FirstWindow(at.column); column <= last_column; ++column) {
        const int in_window =
            (at.row - row * shape.stride) * shape.kernel + (at.column - column * shape.stride);
        const int64_t window =
            ((at.sample * shape.out_rows() + row) * shape.out_columns() + column) * shape.channels +
            at.channel;
        AddFrom<N>(window, static_cast<uint8_t>(in_window), sum);
      }
    }
    sum.Store(in_gradient + first);
  }

  // The first window that reaches a row (or column): it begins at most kernel - 1 before.
  __device__ int FirstWindow(int at) const {
    const int begin = at - shape.kernel + 1;
    return begin <= 0 ? 0 : (begin + shape.stride - 1) / shape.stride;
  }

  // Adds the gradient of windows whose largest element is at `in_window`.
  template <int N>
  __device__ void AddFrom(int64_t window, uint8_t in_window, Vector<T, N>& sum) const {
    const auto gradient = Vector<T, N>::Load(out_gradient + window);
    bool passes[N];
#pragma unroll
    for (int i = 0; i < N; ++i) passes[i] = places[window + i] == in_window;
    if (relu_out != nullptr) {
      const auto out = Vector<T, N>::Load(relu_out + window);
#pragma unroll
      for (int i = 0; i < N; ++i) passes[i] = passes[i] && out.values[i] > 0.0f;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) sum.values[i] += passes[i] ? gradient.values[i] : 0.0f;
  }
};

// With 4 channels a thread where channels allow it: small networks have too few pixels for more.
template <typename Apply>
cudaError_t ForEachChannels(cudaStream_t stream, int64_t size, int64_t channels,
                            const Apply& apply) {
  if (channels % 4 == 0) return ForEach<4>(stream, size, apply);
  return ForEach<1>(stream, size, apply);
}

}  // namespace

template <typename T>
cudaError_t MaxPoolForward(cudaStream_t stream, const T* in, PoolingShape shape, T* out,
                           uint8_t* places) {
  return ForEachChannels(stream, shape.out_size(), shape.channels,
                         ForwardOf<T>{in, shape, out, places});
}
template cudaError_t MaxPoolForward(cudaStream_t, const float*, PoolingShape, float*, uint8_t*);
template cudaError_t MaxPoolForward(cudaStream_t, const bf16*, PoolingShape, bf16*, uint8_t*);

template <typename T>
cudaError_t MaxPoolBackward(cudaStream_t stream, const T* out_gradient, const uint8_t* places,
                            const T* relu_out, PoolingShape shape, T* in_gradient) {
  return ForEachChannels(stream, shape.in_size(), shape.channels,
                         BackwardOf<T>{out_gradient, places, relu_out, shape, in_gradient});
}
template cudaError_t MaxPoolBackward(cudaStream_t, const float*, const uint8_t*, const float*,
                                     PoolingShape, float*);
template cudaError_t MaxPoolBackward(cudaStream_t, const bf16*, const uint8_t*, const bf16*,
                                     PoolingShape, bf16*);

}  // namespace dp::engine::cuda
