#pragma once

#include <memory>
#include <string>
#include <utility>

#include "worker/engine/device/device.h"

namespace dp::trainer {

// The CPU's device. Tests override what another device would do.
class OverCpu : public engine::Device {
 public:
  absl::StatusOr<std::unique_ptr<engine::Array>> Allocate(int64_t size) override {
    return cpu_->Allocate(size);
  }
  absl::StatusOr<std::unique_ptr<engine::Network>> Compile(
      absl::Span<const model::CheckedLayer> layers, const engine::NetworkOptions& options,
      absl::Span<const float> values, absl::Span<float> gradients) override {
    return cpu_->Compile(layers, options, values, gradients);
  }
  absl::StatusOr<std::unique_ptr<engine::Optimizer>> MakeOptimizer(
      const engine::OptimizerOptions& options, const engine::ParameterLayout& layout,
      absl::Span<float> values, absl::Span<const float> gradients) override {
    return cpu_->MakeOptimizer(options, layout, values, gradients);
  }
  absl::StatusOr<std::unique_ptr<engine::StepProgram>> MakeStepProgram(
      const engine::StepProgram::Parts&) override {
    return nullptr;
  }
  void Accumulate(absl::Span<const float> from, bool first, absl::Span<float> sum) override {
    cpu_->Accumulate(from, first, sum);
  }
  void Write(absl::Span<const float> host, absl::Span<float> array) override {
    cpu_->Write(host, array);
  }
  void Read(absl::Span<const float> array, absl::Span<float> host) const override {
    cpu_->Read(array, host);
  }
  absl::Status status() const override { return absl::OkStatus(); }
  void* stream() const override { return nullptr; }

 private:
  const std::unique_ptr<engine::Device> cpu_ = *engine::OpenCpu(/*threads=*/1);
};

// Fails for good after `reads` reads: later reads return nothing, and status() reports the failure.
class FailingDevice final : public OverCpu {
 public:
  static absl::Status Failure() { return absl::InternalError("the GPU has fallen off the bus"); }

  explicit FailingDevice(int reads) : reads_left_(reads) {}

  void Read(absl::Span<const float> array, absl::Span<float> host) const override {
    if (--reads_left_ >= 0) OverCpu::Read(array, host);
  }
  absl::Status status() const override { return reads_left_ >= 0 ? absl::OkStatus() : Failure(); }

 private:
  mutable int reads_left_;
};

}  // namespace dp::trainer
