#pragma once

#include "worker/library/memory/array_math.h"

namespace dp::library {

// The host's memory, by plain loops. Never fails. Stateless.
class HostMath : public ArrayMath {
 public:
  absl::Status Convert(engine::ConstElements from, engine::Elements to) override;
  absl::Status Scale(engine::Elements values, double factor) override;
  absl::Status SumSquares(engine::ConstElements values, absl::Span<double> sums) override;
  absl::Status Sum(absl::Span<const uint8_t* const> arrays, engine::Elements sum) override;

  size_t Workspace(const ChannelShape&) const override { return 0; }
  absl::Status SumUp(const ChannelShape& shape, const float* values, double* workspace,
                     double* packed) override;
  absl::Status Combine(size_t channels, size_t ranks, const double* packed,
                       const BatchNormOptions& options, const BatchNormState& state,
                       float* running_mean, float* running_var) override;
  absl::Status TakeRunning(size_t channels, const float* running_mean, const float* running_var,
                           double eps, const BatchNormState& state) override;
  absl::Status Normalize(const ChannelShape& shape, const float* in, const float* weight,
                         const float* bias, const BatchNormState& state, float* out) override;
  absl::Status SumGradients(const ChannelShape& shape, const float* in, const float* out_grad,
                            const BatchNormState& state, double* workspace, double* sums) override;
  absl::Status AddGradients(size_t channels, const double* sums, float* weight_grad,
                            float* bias_grad) override;
  absl::Status InputGradient(const ChannelShape& shape, const float* in, const float* out_grad,
                             const float* weight, const BatchNormState& state, const double* sums,
                             float* in_grad) override;
};

}  // namespace dp::library
