#include "worker/engine/device/cuda/images/cuda_pooling.h"

#include "worker/engine/device/cuda/images/cuda_samples.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"

namespace dp::engine::cuda {
namespace {

// Some neighbouring channels of a pixel.
struct Place {
  int sample;
  int row;
  int column;
  int channel;  // the first
};

// The place of group `group` of N channels in images of `rows` x `columns`. Neighbouring threads
// take neighbours in memory: channels, or pixels where outputs are in plain order.
template <int N>
__device__ Place PlaceOf(int group, const PoolingShape& shape, int rows, int columns) {
  const int groups = static_cast<int>(shape.channels) / N;
  const int pixels = rows * columns;
  const int inner = shape.plain ? pixels : groups;
  const int middle = shape.plain ? groups : pixels;
  const int outside = group / inner;
  const int at_inner = group % inner;
  const int at_middle = outside % middle;
  const int pixel = shape.plain ? at_inner : at_middle;
  const int of_channels = shape.plain ? at_middle : at_inner;
  return {outside / middle, pixel / columns, pixel % columns, of_channels * N};
}

// Where N channels of an output pixel lie.
struct OutPlace {
  int first;
  int step;  // from a channel to the next

  __device__ OutPlace(const PoolingShape& shape, const Place& at) {
    const int pixel = at.row * shape.out_columns() + at.column;
    const int pixels = shape.out_rows() * shape.out_columns();
    const int channels = static_cast<int>(shape.channels);
    first = shape.plain ? (at.sample * channels + at.channel) * pixels + pixel
                        : (at.sample * pixels + pixel) * channels + at.channel;
    step = shape.plain ? pixels : 1;
  }
};

template <int N, typename T>
__device__ Vector<T, N> LoadOut(const T* from, const OutPlace& at) {
  if (at.step == 1) return Vector<T, N>::Load(from + at.first);
  Vector<T, N> vector;
#pragma unroll
  for (int i = 0; i < N; ++i) vector.values[i] = ToFloat(from[at.first + i * at.step]);
  return vector;
}

template <int N, typename T>
__device__ void StoreOut(const Vector<T, N>& vector, const OutPlace& at, T* to) {
  if (at.step == 1) return vector.Store(to + at.first);
#pragma unroll
  for (int i = 0; i < N; ++i) to[at.first + i * at.step] = FromFloat<T>(vector.values[i]);
}

// N neighbouring channels of one output pixel; the number of channels is a multiple of N.
template <typename T>
struct ForwardOf {
  const T* in;
  PoolingShape shape;
  T* out;
  uint8_t* places;

  template <int N>
  __device__ void At(int64_t first) const {
    const Place at =
        PlaceOf<N>(static_cast<int>(first) / N, shape, shape.out_rows(), shape.out_columns());
    const int channels = static_cast<int>(shape.channels);
    const int first_row = at.row * shape.stride - shape.padding;
    const int first_column = at.column * shape.stride - shape.padding;
    const int begin_row = max(-first_row, 0), begin_column = max(-first_column, 0);
    const int end_row = min(shape.kernel, shape.in_rows - first_row);
    const int end_column = min(shape.kernel, shape.in_columns - first_column);
    const T* image = in + int64_t{at.sample} * shape.in_rows * shape.in_columns * channels;
    const auto load = [&](int row, int column) {
      const int pixel = (first_row + row) * shape.in_columns + first_column + column;
      return Vector<T, N>::Load(image + pixel * channels + at.channel);
    };
    auto largest = load(begin_row, begin_column);
    uint8_t place[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      place[i] = static_cast<uint8_t>(begin_row * shape.kernel + begin_column);
    }
    for (int row = begin_row; row < end_row; ++row) {
      for (int column = begin_column; column < end_column; ++column) {
        const int k = row * shape.kernel + column;
        if (k == begin_row * shape.kernel + begin_column) continue;
        const auto value = load(row, column);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float next = value.values[i];
          const bool is_nan = next != next;  // a NaN counts as larger, as in PyTorch
          if (!(next > largest.values[i]) && !is_nan) continue;
          largest.values[i] = next;
          place[i] = static_cast<uint8_t>(k);
        }
      }
    }
    const OutPlace to(shape, at);
    StoreOut(largest, to, out);
#pragma unroll
    for (int i = 0; i < N; ++i) places[to.first + i * to.step] = place[i];
  }
};

// N neighbouring channels of one input pixel. Goes over the windows that contain the pixel.
template <typename T>
struct BackwardOf {
  const T* out_gradient;
  const uint8_t* places;
  const T* relu_out;
  PoolingShape shape;
  T* in_gradient;

  template <int N>
  __device__ void At(int64_t first) const {
    const Place at =
        PlaceOf<N>(static_cast<int>(first) / N, shape, shape.in_rows, shape.in_columns);
    Vector<T, N> sum = {};
    // As if the padding were part of the image.
    const int padded_row = at.row + shape.padding, padded_column = at.column + shape.padding;
    const int last_row = min(padded_row / shape.stride, shape.out_rows() - 1);
    const int last_column = min(padded_column / shape.stride, shape.out_columns() - 1);
    for (int row = FirstWindow(padded_row); row <= last_row; ++row) {
      for (int column = FirstWindow(padded_column); column <= last_column; ++column) {
        const int in_window = (padded_row - row * shape.stride) * shape.kernel +
                              (padded_column - column * shape.stride);
        const OutPlace window(shape, {at.sample, row, column, at.channel});
        AddFrom<N>(window, static_cast<uint8_t>(in_window), sum);
      }
    }
    sum.Store(in_gradient +
              ((at.sample * shape.in_rows + at.row) * shape.in_columns + at.column) *
                  static_cast<int>(shape.channels) +
              at.channel);
  }

  // The first window that contains a row (or column): it begins at most kernel - 1 before.
  __device__ int FirstWindow(int at) const {
    const int begin = at - shape.kernel + 1;
    return begin <= 0 ? 0 : (begin + shape.stride - 1) / shape.stride;
  }

  // Adds the gradients of the channels whose largest element in this window is at `in_window`.
  template <int N>
  __device__ void AddFrom(const OutPlace& window, uint8_t in_window, Vector<T, N>& sum) const {
    const auto gradient = LoadOut<N>(out_gradient, window);
    bool passes[N];
#pragma unroll
    for (int i = 0; i < N; ++i) passes[i] = places[window.first + i * window.step] == in_window;
    if (relu_out != nullptr) {
      const auto out = LoadOut<N>(relu_out, window);
#pragma unroll
      for (int i = 0; i < N; ++i) passes[i] = passes[i] && out.values[i] > 0.0f;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) sum.values[i] += passes[i] ? gradient.values[i] : 0.0f;
  }
};

}  // namespace

template <typename T>
cudaError_t MaxPoolForward(cudaStream_t stream, const T* in, PoolingShape shape, T* out,
                           uint8_t* places) {
  return ForSamples(shape, [&](int64_t first, const PoolingShape& part) {
    const int64_t ins = first * (part.in_size() / part.samples);
    const int64_t outs = first * (part.out_size() / part.samples);
    return ForEachChannels(stream, part.out_size(), part.channels,
                           ForwardOf<T>{in + ins, part, out + outs, places + outs});
  });
}
template cudaError_t MaxPoolForward(cudaStream_t, const float*, PoolingShape, float*, uint8_t*);
template cudaError_t MaxPoolForward(cudaStream_t, const bf16*, PoolingShape, bf16*, uint8_t*);

template <typename T>
cudaError_t MaxPoolBackward(cudaStream_t stream, const T* out_gradient, const uint8_t* places,
                            const T* relu_out, PoolingShape shape, T* in_gradient) {
  return ForSamples(shape, [&](int64_t first, const PoolingShape& part) {
    const int64_t ins = first * (part.in_size() / part.samples);
    const int64_t outs = first * (part.out_size() / part.samples);
    const BackwardOf<T> apply = {out_gradient + outs, places + outs,
                                 relu_out == nullptr ? nullptr : relu_out + outs, part,
                                 in_gradient + ins};
    return ForEachChannels(stream, part.in_size(), part.channels, apply);
  });
}
template cudaError_t MaxPoolBackward(cudaStream_t, const float*, const uint8_t*, const float*,
                                     PoolingShape, float*);
template cudaError_t MaxPoolBackward(cudaStream_t, const bf16*, const uint8_t*, const bf16*,
                                     PoolingShape, bf16*);

}  // namespace dp::engine::cuda
