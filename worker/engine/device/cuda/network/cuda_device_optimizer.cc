#include "worker/engine/device/cuda/network/cuda_device_optimizer.h"

#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/overloaded.h"
#include "base/status.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {
namespace {

// A copy of `values`; the source is free when this returns.
template <typename T>
absl::StatusOr<DeviceBuffer> Copied(DeviceContext& context, absl::Span<const T> values) {
  const int64_t bytes = static_cast<int64_t>(values.size() * sizeof(T));
  DP_ASSIGN_OR_RETURN(DeviceBuffer buffer, DeviceBuffer::Allocate(bytes));
  DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(buffer.data(), values.data(), bytes,
                                          cudaMemcpyHostToDevice, context.stream()));
  DP_RETURN_IF_ERROR(context.Synchronize());
  return buffer;
}

absl::StatusOr<DeviceBuffer> Zeroes(DeviceContext& context, size_t floats) {
  DP_ASSIGN_OR_RETURN(DeviceBuffer buffer,
                      DeviceBuffer::Allocate(static_cast<int64_t>(floats * sizeof(float))));
  DP_RETURN_IF_ERROR(buffer.Zero(context.stream()));
  return buffer;
}

absl::Span<float> Floats(const DeviceBuffer& buffer) {
  return {buffer.as<float>(), static_cast<size_t>(buffer.bytes()) / sizeof(float)};
}

class CudaSgd final : public CudaOptimizer {
 public:
  struct Memory {
    DeviceBuffer velocity;
  };
  CudaSgd(DeviceContext& context, DeviceBuffer learning_rate, const SgdOptions& options,
          absl::Span<float> values, absl::Span<const float> gradients, Memory memory)
      : CudaOptimizer(context, std::move(learning_rate), options.learning_rate),
        options_(options),
        values_(values),
        gradients_(gradients),
        memory_(std::move(memory)) {}

  absl::Status QueueFactors() override { return absl::OkStatus(); }
  absl::Status QueueUpdate(ValueRange range, bf16* rounded) override {
    DP_CUDA_RETURN_IF_ERROR(
        SgdUpdate(context_.stream(), options_, learning_rate(), range,
                  {gradients_.data(), memory_.velocity.as<float>(), values_.data(), rounded}));
    return absl::OkStatus();
  }
  std::vector<OptimizerState> state() override { return {{"velocity", Floats(memory_.velocity)}}; }

 private:
  int64_t size() const override { return static_cast<int64_t>(values_.size()); }

  const SgdOptions options_;
  const absl::Span<float> values_;
  const absl::Span<const float> gradients_;
  const Memory memory_;
};

class CudaAdamW final : public CudaOptimizer {
 public:
  struct Memory {
    DeviceBuffer step;     // int64: the number of the next step
    DeviceBuffer factors;  // AdamWFactors
    DeviceBuffer decays;
    DeviceBuffer first;
    DeviceBuffer second;
  };
  CudaAdamW(DeviceContext& context, DeviceBuffer learning_rate, const AdamWOptions& options,
            absl::Span<float> values, absl::Span<const float> gradients, Memory memory)
      : CudaOptimizer(context, std::move(learning_rate), options.learning_rate),
        options_(options),
        values_(values),
        gradients_(gradients),
        memory_(std::move(memory)) {}

  absl::Status PrepareNumber(int64_t number) override {
    DP_CHECK(number >= 1);
    if (number != next_) {
      // Copies from pageable memory, which is read before this returns.
      DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(memory_.step.data(), &number, sizeof(number),
                                              cudaMemcpyHostToDevice, context_.stream()));
      DP_RETURN_IF_ERROR(context_.Synchronize());
    }
    next_ = number + 1;
    return absl::OkStatus();
  }
  absl::Status QueueFactors() override {
    DP_CUDA_RETURN_IF_ERROR(PrepareAdamW(context_.stream(), options_, learning_rate(),
                                         memory_.step.as<int64_t>(),
                                         memory_.factors.as<AdamWFactors>()));
    return absl::OkStatus();
  }
  absl::Status QueueUpdate(ValueRange range, bf16* rounded) override {
    DP_CUDA_RETURN_IF_ERROR(AdamWUpdate(context_.stream(), memory_.factors.as<AdamWFactors>(),
                                        memory_.decays.as<uint32_t>(), range,
                                        {gradients_.data(), memory_.first.as<float>(),
                                         memory_.second.as<float>(), values_.data(), rounded}));
    return absl::OkStatus();
  }
  std::vector<OptimizerState> state() override {
    return {{"exp_avg", Floats(memory_.first)}, {"exp_avg_sq", Floats(memory_.second)}};
  }

 private:
  int64_t size() const override { return static_cast<int64_t>(values_.size()); }

  const AdamWOptions options_;
  const absl::Span<float> values_;
  const absl::Span<const float> gradients_;
  const Memory memory_;
  int64_t next_ = 0;  // the device's count: the number of its next step
};

absl::StatusOr<std::unique_ptr<Optimizer>> MakeCudaSgd(DeviceContext& context,
                                                       const SgdOptions& options,
                                                       absl::Span<float> values,
                                                       absl::Span<const float> gradients) {
  DP_ASSIGN_OR_RETURN(DeviceBuffer learning_rate, DeviceBuffer::Allocate(sizeof(double)));
  CudaSgd::Memory memory;
  DP_ASSIGN_OR_RETURN(memory.velocity, Zeroes(context, values.size()));
  return std::make_unique<CudaSgd>(context, std::move(learning_rate), options, values, gradients,
                                   std::move(memory));
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeCudaAdamW(DeviceContext& context,
                                                         const AdamWOptions& options,
                                                         const ParameterLayout& layout,
                                                         absl::Span<float> values,
                                                         absl::Span<const float> gradients) {
  const std::vector<uint32_t> decays = DecayBlocks(options, layout);
  DP_ASSIGN_OR_RETURN(DeviceBuffer learning_rate, DeviceBuffer::Allocate(sizeof(double)));
  CudaAdamW::Memory memory;
  DP_ASSIGN_OR_RETURN(memory.decays, Copied(context, absl::MakeConstSpan(decays)));
  DP_ASSIGN_OR_RETURN(memory.step, DeviceBuffer::Allocate(sizeof(int64_t)));
  DP_ASSIGN_OR_RETURN(memory.factors, DeviceBuffer::Allocate(sizeof(AdamWFactors)));
  DP_ASSIGN_OR_RETURN(memory.first, Zeroes(context, values.size()));
  DP_ASSIGN_OR_RETURN(memory.second, Zeroes(context, values.size()));
  return std::make_unique<CudaAdamW>(context, std::move(learning_rate), options, values, gradients,
                                     std::move(memory));
}

}  // namespace

void CudaOptimizer::Step(const OptimizerStep& step) {
  context_.Use();
  context_.Do([&]() -> absl::Status {
    DP_RETURN_IF_ERROR(Prepare(step));
    return Queue(/*rounded=*/nullptr);
  });
  context_.ArraysChanged();
}

absl::Status CudaOptimizer::Prepare(const OptimizerStep& step) {
  const double rate = learning_rate_of_options_ * step.learning_rate_factor;
  if (stored_rate_ != rate) {
    DP_CUDA_RETURN_IF_ERROR(StoreRate(context_.stream(), rate, learning_rate_.as<double>()));
    stored_rate_ = rate;
  }
  return PrepareNumber(step.number);
}

absl::Status CudaOptimizer::Queue(bf16* rounded) {
  DP_RETURN_IF_ERROR(QueueFactors());
  return QueueUpdate({0, size()}, rounded);
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeCudaOptimizer(DeviceContext& context,
                                                             const OptimizerOptions& options,
                                                             const ParameterLayout& layout,
                                                             absl::Span<float> values,
                                                             absl::Span<const float> gradients) {
  DP_CHECK(values.size() == gradients.size());
  DP_CHECK(static_cast<int64_t>(values.size()) == layout.size);
  return std::visit(Overloaded{[&](const SgdOptions& sgd) {
                                 return MakeCudaSgd(context, sgd, values, gradients);
                               },
                               [&](const AdamWOptions& adamw) {
                                 return MakeCudaAdamW(context, adamw, layout, values, gradients);
                               }},
                    options.update);
}

}  // namespace dp::engine::cuda
