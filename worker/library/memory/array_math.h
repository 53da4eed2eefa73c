#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/engine/collectives/reduce/elements.h"
#include "worker/engine/nn/batch_statistics.h"

namespace dp::library {

// SumSquares gives one sum for so many values.
inline constexpr size_t kSumChunk = size_t{1} << 16;
// Sum takes so many arrays: more than a host has GPUs.
inline constexpr size_t kSumArraysMax = 32;

using engine::ChannelShape;

// The result of a forward of batch normalization for its backward, over the samples of all ranks.
struct BatchNormState {
  double* count = nullptr;  // one: how many values a channel has
  double* mean = nullptr;   // by channel
  double* inverse_deviation = nullptr;
};

struct BatchNormOptions {
  double eps = 0;
  double share = 0;  // of the batch in the new running values
};

// Arithmetic on arrays of one memory. A GPU's runs on the stream for which it was made, after the
// earlier and before the later work, and returns at once. HostMath defines the results. A GPU adds
// in an order of its own, which follows from the sizes alone.
// Errors: those of the GPU's runtime. Calls come from one thread at a time.
class ArrayMath {
 public:
  virtual ~ArrayMath() = default;

  // As engine::Convert. The arrays begin at multiples of 16 bytes.
  virtual absl::Status Convert(engine::ConstElements from, engine::Elements to) = 0;
  // Multiplies floats of any type. Only float64 keeps the factor's digits beyond a float.
  virtual absl::Status Scale(engine::Elements values, double factor) = 0;
  // Floats of any type; a sum of squares for each chunk.
  virtual absl::Status SumSquares(engine::ConstElements values, absl::Span<double> sums) = 0;
  // sum = arrays[0] + arrays[1] + ..., as engine::ReduceInOrder, with its bits in every memory.
  // Each array has the type and size of `sum`, which may be one of them.
  virtual absl::Status Sum(absl::Span<const uint8_t* const> arrays, engine::Elements sum) = 0;

  // Batch normalization. Arrays by channel have no size of their own.

  // The doubles that SumUp and SumGradients need as `workspace`.
  virtual size_t Workspace(const ChannelShape& shape) const = 0;
  // This rank's statistics, as BatchStatistics::Packed.
  virtual absl::Status SumUp(const ChannelShape& shape, const float* values, double* workspace,
                             double* packed) = 0;
  // Makes those of `ranks` ranks one batch, and moves the running values towards it.
  virtual absl::Status Combine(size_t channels, size_t ranks, const double* packed,
                               const BatchNormOptions& options, const BatchNormState& state,
                               float* running_mean, float* running_var) = 0;
  // The state by which evaluation normalizes.
  virtual absl::Status TakeRunning(size_t channels, const float* running_mean,
                                   const float* running_var, double eps,
                                   const BatchNormState& state) = 0;
  // (in - mean) * inverse deviation * weight + bias.
  virtual absl::Status Normalize(const ChannelShape& shape, const float* in, const float* weight,
                                 const float* bias, const BatchNormState& state, float* out) = 0;
  // sums[c] is the sum of the output's gradients; sums[channels + c] that of these times the
  // normalized input.
  virtual absl::Status SumGradients(const ChannelShape& shape, const float* in,
                                    const float* out_grad, const BatchNormState& state,
                                    double* workspace, double* sums) = 0;
  // Adds this rank's sums to the gradients of the weights.
  virtual absl::Status AddGradients(size_t channels, const double* sums, float* weight_grad,
                                    float* bias_grad) = 0;
  // `sums` are those of all ranks.
  virtual absl::Status InputGradient(const ChannelShape& shape, const float* in,
                                     const float* out_grad, const float* weight,
                                     const BatchNormState& state, const double* sums,
                                     float* in_grad) = 0;
};

}  // namespace dp::library
