#pragma once

// What the kernels' headers share. Every kernel is launched by a function of plain arguments, from
// the thread that owns the stream, and returns what the launch answered: wrap it in
// DP_CUDA_RETURN_IF_ERROR. Work is queued, never waited for, and allocates nothing, so that a whole
// step can be captured as a graph. Pointers are to device memory. Unless a function says otherwise,
// arrays are dense, in row-major order, and aligned to 16 bytes; no output overlaps an input.
//
// The same input gives the same bits: no kernel adds floats in an order that is left to chance, and
// how sums are split follows from shapes alone, never from the card.
//
// T is float or bf16, the precision of activations. Sums and what lies between are floats.

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "worker/engine/device/cuda/cuda_host_device.h"

namespace dp::engine::cuda {

using bf16 = __nv_bfloat16;

struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;

  DP_HOST_DEVICE int64_t size() const { return rows * columns; }
};

// What the host says anew for each step. In device memory, so that a captured step reads it.
struct StepInput {
  int64_t count = 0;         // Batch::count: the first samples of the batch; the rest is padding
  uint64_t draw = 0;         // Batch::draw
  float gradient_scale = 0;  // Network::Backward's
  float leaving = 0;         // StepTail::leaving
};

}  // namespace dp::engine::cuda
