#pragma once

// Shared by the kernels' headers. A function of plain arguments launches each kernel, from the
// thread that owns the stream, and returns the launch's result: wrap it in DP_CUDA_RETURN_IF_ERROR.
// Such a function queues work, never waits for it and allocates nothing, so a whole step can be
// captured as a graph. Pointers are to device memory. Unless a function says otherwise, arrays are
// dense, in row-major order and aligned to 16 bytes; no output overlaps an input.
//
// The same input gives the same bits: no kernel adds floats in an arbitrary order. How sums are
// split follows from shapes alone, never from the card.
//
// T is float or bf16, the precision of activations. Sums and intermediate values are floats.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/model/host_device.h"

namespace dp::engine::cuda {

using bf16 = __nv_bfloat16;

struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;

  DP_HOST_DEVICE int64_t size() const { return rows * columns; }
};

// The host's input to each step. It lies in device memory, so a captured step reads the new values.
struct StepInput {
  int64_t count = 0;         // Batch::count: the first samples of the batch; the rest is padding
  uint64_t draw = 0;         // Batch::draw
  float gradient_scale = 0;  // Network::Backward's
  float leaving = 0;         // StepTail::leaving
};

}  // namespace dp::engine::cuda
