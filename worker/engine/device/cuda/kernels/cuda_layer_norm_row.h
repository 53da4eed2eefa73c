#pragma once

#include "worker/engine/device/cuda/kernels/cuda_launch_kernel.h"
#include "worker/engine/device/cuda/kernels/cuda_vector.h"
#include "worker/engine/device/cuda/kernels/cuda_warp.h"

// How a warp goes over a row of a layer norm. Only .cu files include it.

namespace dp::engine::cuda {

// Each lane has every 32nd vector of N columns. K is the number of vectors of a lane: the compiler
// knows it, so they stay in registers. K is 0 for rows of any width, which are read again each
// time, from the cache.
template <int N, int K>
struct RowWalk {
  static constexpr int kHeld = K > 0 ? K : 1;

  int columns;

  // use(k, column) for each vector of this lane.
  template <typename Use>
  __device__ void ForEach(Use use) const {
    const int steps = K > 0 ? K : (columns + kWarpThreads * N - 1) / (kWarpThreads * N);
#pragma unroll
    for (int k = 0; k < steps; ++k) {
      const int column = (k * kWarpThreads + static_cast<int>(threadIdx.x)) * N;
      if (column < columns) use(k, column);
    }
  }
};

// A row of T, held in registers as it lies in memory.
template <typename T, int N, int K>
struct HeldRow {
  Packed<T, N> held[K];

  __device__ void Read(const RowWalk<N, K>& walk, const T* from) {
    walk.ForEach([&](int k, int column) { held[k] = Packed<T, N>::Load(from + column); });
  }
  __device__ Vector<T, N> At(int k, int) const { return held[k].Unpacked(); }
};

// A row that is read where it is needed.
template <typename T, int N>
struct HeldRow<T, N, 0> {
  const T* row = nullptr;

  template <int K>
  __device__ void Read(const RowWalk<N, K>&, const T* from) {
    row = from;
  }
  __device__ Vector<T, N> At(int, int column) const { return Vector<T, N>::Load(row + column); }
};

// Calls launch.template operator()<N, K>() with the N and K that fit rows of `columns` columns.
template <typename Launch>
cudaError_t WithRowWalk(int64_t columns, const Launch& launch) {
  constexpr int kWide = 8;
  if (columns % kWide != 0) return launch.template operator()<1, 0>();
  switch (DivideUp(columns, kWarpThreads * kWide)) {
    case 1:
      return launch.template operator()<kWide, 1>();
    case 2:
      return launch.template operator()<kWide, 2>();
    case 3:
      return launch.template operator()<kWide, 3>();
    case 4:
      return launch.template operator()<kWide, 4>();
    default:
      return launch.template operator()<kWide, 0>();
  }
}

}  // namespace dp::engine::cuda
