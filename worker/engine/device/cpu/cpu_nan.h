#pragma once

#include "absl/types/span.h"
#include "worker/engine/device/cpu/cpu_stream.h"

// NaN passes through a ReLU and a maximum, as in PyTorch, so that a failed training shows in its
// loss. oneDNN's maxima and exponentials may drop NaN instead. Thread-safe but for the memory that
// is written.

namespace dp::engine {

// Writes the ReLU of each element; a NaN stays NaN. `out` has the size of `in`, and may be `in`.
void ReluOf(absl::Span<const float> in, absl::Span<float> out);

// The ReLU of the sum of two arrays of `out`'s size; a NaN stays NaN.
void ReluOfSum(const float* a, const float* b, absl::Span<float> out);

// Copies each NaN of `in` to its place in `out`, which has the same size.
void PassNan(absl::Span<const float> in, absl::Span<float> out);

// The largest absolute value: 0 if there are none, NaN if one is NaN.
float LargestMagnitude(absl::Span<const float> values);

// Square windows of an image.
struct PoolWindows {
  int64_t kernel;
  int64_t stride;
  int64_t padding;
};

// Sets each output to NaN whose window in `in` has a NaN. Any format of images; slow.
void PassNanOfWindows(const dnnl::memory& in, const PoolWindows& windows, const dnnl::memory& out);

}  // namespace dp::engine
