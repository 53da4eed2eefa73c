#include "worker/engine/device/cuda/network/cuda_device_optimizer.h"

#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/overloaded.h"
#include "base/status.h"
#include "worker/engine/device/cuda/kernels/cuda_launch.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"
#include "worker/engine/nn/gradient_norm.h"

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

static_assert(kNormLanes == kBlockThreads);  // one order of sums

absl::Span<float> Floats(const DeviceBuffer& buffer) {
  return {buffer.as<float>(), static_cast<size_t>(buffer.bytes()) / sizeof(float)};
}

class CudaSgd final : public CudaOptimizer {
 public:
  CudaSgd(DeviceContext& context, Shared shared, const SgdOptions& options, DeviceBuffer velocity)
      : CudaOptimizer(context, std::move(shared)),
        options_(options),
        velocity_(std::move(velocity)) {}

  absl::Status QueueUpdate(ValueRange range, bf16* rounded) override {
    DP_CUDA_RETURN_IF_ERROR(SgdUpdate(context_.stream(), options_, learning_rate(), range,
                                      {.gradients = shared().gradients.data(),
                                       .gradient_factor = gradient_factor(),
                                       .velocity = velocity_.as<float>(),
                                       .values = shared().values.data(),
                                       .rounded = rounded}));
    return absl::OkStatus();
  }
  std::vector<OptimizerState> state() override { return {{"velocity", Floats(velocity_)}}; }

 private:
  const SgdOptions options_;
  const DeviceBuffer velocity_;
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
  CudaAdamW(DeviceContext& context, Shared shared, const AdamWOptions& options, Memory memory)
      : CudaOptimizer(context, std::move(shared)), options_(options), memory_(std::move(memory)) {}

  absl::Status QueueUpdate(ValueRange range, bf16* rounded) override {
    DP_CUDA_RETURN_IF_ERROR(AdamWUpdate(context_.stream(), memory_.factors.as<AdamWFactors>(),
                                        memory_.decays.as<uint32_t>(), range,
                                        {.gradients = shared().gradients.data(),
                                         .gradient_factor = gradient_factor(),
                                         .first = memory_.first.as<float>(),
                                         .second = memory_.second.as<float>(),
                                         .values = shared().values.data(),
                                         .rounded = rounded}));
    return absl::OkStatus();
  }
  std::vector<OptimizerState> state() override {
    return {{"exp_avg", Floats(memory_.first)}, {"exp_avg_sq", Floats(memory_.second)}};
  }

 private:
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
  absl::Status QueueOwnFactors() override {
    DP_CUDA_RETURN_IF_ERROR(PrepareAdamW(context_.stream(), options_, learning_rate(),
                                         memory_.step.as<int64_t>(),
                                         memory_.factors.as<AdamWFactors>()));
    return absl::OkStatus();
  }

  const AdamWOptions options_;
  const Memory memory_;
  int64_t next_ = 0;  // the device's count: the number of its next step
};

absl::StatusOr<std::unique_ptr<Optimizer>> MakeCudaSgd(DeviceContext& context,
                                                       const SgdOptions& options,
                                                       CudaOptimizer::Shared shared) {
  DP_ASSIGN_OR_RETURN(DeviceBuffer velocity, Zeroes(context, shared.values.size()));
  return std::make_unique<CudaSgd>(context, std::move(shared), options, std::move(velocity));
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeCudaAdamW(DeviceContext& context,
                                                         const AdamWOptions& options,
                                                         const ParameterLayout& layout,
                                                         CudaOptimizer::Shared shared) {
  const std::vector<uint32_t> decays = DecayBlocks(options, layout);
  CudaAdamW::Memory memory;
  DP_ASSIGN_OR_RETURN(memory.decays, Copied(context, absl::MakeConstSpan(decays)));
  DP_ASSIGN_OR_RETURN(memory.step, DeviceBuffer::Allocate(sizeof(int64_t)));
  DP_ASSIGN_OR_RETURN(memory.factors, DeviceBuffer::Allocate(sizeof(AdamWFactors)));
  DP_ASSIGN_OR_RETURN(memory.first, Zeroes(context, shared.values.size()));
  DP_ASSIGN_OR_RETURN(memory.second, Zeroes(context, shared.values.size()));
  return std::make_unique<CudaAdamW>(context, std::move(shared), options, std::move(memory));
}

}  // namespace

absl::StatusOr<CudaOptimizer::Shared> CudaOptimizer::MakeShared(DeviceContext& context,
                                                                const OptimizerOptions& options,
                                                                absl::Span<float> values,
                                                                absl::Span<const float> gradients) {
  Shared shared = {.values = values, .gradients = gradients, .clip_norm = options.clip_norm};
  shared.learning_rate =
      std::visit([](const auto& update) { return update.learning_rate; }, options.update);
  const ClippedNorm unclipped;
  DP_ASSIGN_OR_RETURN(shared.rate, DeviceBuffer::Allocate(sizeof(double)));
  DP_ASSIGN_OR_RETURN(shared.clipped, Copied(context, absl::MakeConstSpan(&unclipped, 1)));
  if (options.clip_norm > 0) {
    const int64_t chunks = DivideUp(static_cast<int64_t>(values.size()), kNormChunk);
    DP_ASSIGN_OR_RETURN(shared.sums,
                        DeviceBuffer::Allocate(chunks * static_cast<int64_t>(sizeof(double))));
  }
  return shared;
}

CudaOptimizer::CudaOptimizer(DeviceContext& context, Shared shared)
    : context_(context), shared_(std::move(shared)) {}

void CudaOptimizer::Step(const OptimizerStep& step) {
  context_.Use();
  context_.Do([&]() -> absl::Status {
    DP_RETURN_IF_ERROR(Prepare(step));
    return Queue(/*rounded=*/nullptr);
  });
  context_.ArraysChanged();
}

float CudaOptimizer::gradient_norm() const {
  float norm = 0;
  context_.Use();
  context_.Do([&]() -> absl::Status {
    if (!clips()) return absl::OkStatus();
    DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(&norm, this->norm(), sizeof(norm),
                                            cudaMemcpyDeviceToHost, context_.stream()));
    return context_.Synchronize();
  });
  return norm;
}

absl::Status CudaOptimizer::Prepare(const OptimizerStep& step) {
  const double rate = shared_.learning_rate * step.learning_rate_factor;
  if (stored_rate_ != rate) {
    DP_CUDA_RETURN_IF_ERROR(StoreRate(context_.stream(), rate, shared_.rate.as<double>()));
    stored_rate_ = rate;
  }
  return PrepareNumber(step.number);
}

absl::Status CudaOptimizer::QueueFactors() {
  if (clips()) {
    const auto size = static_cast<int64_t>(shared_.gradients.size());
    DP_CUDA_RETURN_IF_ERROR(SumSquares(context_.stream(), shared_.gradients.data(), size,
                                       kNormChunk, shared_.sums.as<double>()));
    DP_CUDA_RETURN_IF_ERROR(ClipNorm(context_.stream(), shared_.sums.as<double>(),
                                     DivideUp(size, kNormChunk), shared_.clip_norm,
                                     shared_.clipped.as<ClippedNorm>()));
  }
  return QueueOwnFactors();
}

absl::Status CudaOptimizer::Queue(bf16* rounded) {
  DP_RETURN_IF_ERROR(QueueFactors());
  return QueueUpdate({0, static_cast<int64_t>(shared_.values.size())}, rounded);
}

const float* CudaOptimizer::norm() const {
  return clips() ? &shared_.clipped.as<ClippedNorm>()->norm : nullptr;
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeCudaOptimizer(DeviceContext& context,
                                                             const OptimizerOptions& options,
                                                             const ParameterLayout& layout,
                                                             absl::Span<float> values,
                                                             absl::Span<const float> gradients) {
  DP_CHECK(values.size() == gradients.size());
  DP_CHECK(static_cast<int64_t>(values.size()) == layout.size);
  DP_ASSIGN_OR_RETURN(CudaOptimizer::Shared shared,
                      CudaOptimizer::MakeShared(context, options, values, gradients));
  return std::visit(Overloaded{[&](const SgdOptions& sgd) {
                                 return MakeCudaSgd(context, sgd, std::move(shared));
                               },
                               [&](const AdamWOptions& adamw) {
                                 return MakeCudaAdamW(context, adamw, layout, std::move(shared));
                               }},
                    options.update);
}

}  // namespace dp::engine::cuda
