#pragma once

#include "worker/engine/device/cuda/cuda_launch_kernel.h"
#include "worker/engine/device/cuda/cuda_vector.h"
#include "worker/engine/device/cuda/cuda_warp.h"

// How a warp goes over a row of a layer norm. Only .cu files include it.

namespace dp::engine::cuda {

// torch.nn.LayerNorm's default.
inline constexpr float kLayerNormEpsilon = 1e-5f;

// Each lane has every 32nd vector of N columns. With K, the vectors of a lane, known to the
// compiler, they stay in registers; K is 0 for rows of any width, which are read anew each time,
// from the cache.
template <int N, int K>
struct RowWalk {
  static constexpr int kHeld = K > 0 ? K : 1;

  int64_t columns;

  // use(k, column) for each vector of this lane.
  template <typename Use>
  __device__ void ForEach(Use use) const {
    const int steps = K > 0 ? K : static_cast<int>(DivideUp(columns, kWarpThreads * N));
#pragma unroll
    for (int k = 0; k < steps; ++k) {
      const int64_t column = (int64_t{k} * kWarpThreads + threadIdx.x) * N;
      if (column < columns) use(k, column);
    }
  }
};

// A row of T, held in registers where K says so.
template <typename T, int N, int K>
struct HeldRow {
  const T* row;
  Vector<T, N> held[RowWalk<N, K>::kHeld];

  __device__ void Read(const RowWalk<N, K>& walk, const T* from) {
    row = from;
    if constexpr (K > 0) {
      walk.ForEach([&](int k, int64_t column) { held[k] = Vector<T, N>::Load(row + column); });
    }
  }
  __device__ Vector<T, N> At(int k, int64_t column) const {
    if constexpr (K > 0) return held[k];
    return Vector<T, N>::Load(row + column);
  }
};

// Calls launch.template operator()<N, K>() with what fits rows of so many columns.
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
