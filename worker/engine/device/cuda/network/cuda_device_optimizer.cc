#include "worker/engine/device/cuda/network/cuda_device_optimizer.h"

#include <algorithm>
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

  absl::Status QueueOwnUpdate(ValueRange range, bf16* rounded) override {
    DP_CUDA_RETURN_IF_ERROR(SgdUpdate(context_.stream(), options_, groups(), learning_rate(), range,
                                      {.gradients = shared().gradients.data(),
                                       .gradient_factor = gradient_factor(),
                                       .velocity = velocity_.as<float>(),
                                       .values = shared().values.data(),
                                       .rounded = rounded}));
    return absl::OkStatus();
  }
  std::vector<OptimizerState> own_state() override { return {{"velocity", Floats(velocity_)}}; }

 private:
  const SgdOptions options_;
  const DeviceBuffer velocity_;
};

class CudaAdamW final : public CudaOptimizer {
 public:
  struct Memory {
    DeviceBuffer step;     // int64: the number of the next step
    DeviceBuffer factors;  // AdamWFactors, by group
    DeviceBuffer first;
    DeviceBuffer second;
  };
  CudaAdamW(DeviceContext& context, Shared shared, const AdamWOptions& options, Memory memory)
      : CudaOptimizer(context, std::move(shared)), options_(options), memory_(std::move(memory)) {}

  absl::Status QueueOwnUpdate(ValueRange range, bf16* rounded) override {
    DP_CUDA_RETURN_IF_ERROR(AdamWUpdate(context_.stream(), memory_.factors.as<AdamWFactors>(),
                                        groups().of_blocks, range,
                                        {.gradients = shared().gradients.data(),
                                         .gradient_factor = gradient_factor(),
                                         .first = memory_.first.as<float>(),
                                         .second = memory_.second.as<float>(),
                                         .values = shared().values.data(),
                                         .rounded = rounded}));
    return absl::OkStatus();
  }
  std::vector<OptimizerState> own_state() override {
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
    DP_CUDA_RETURN_IF_ERROR(PrepareAdamW(context_.stream(), options_, groups(), learning_rate(),
                                         memory_.step.as<int64_t>(),
                                         memory_.factors.as<AdamWFactors>()));
    return absl::OkStatus();
  }

  const AdamWOptions options_;
  const Memory memory_;
  int64_t next_ = 0;  // the device's count: the number of its next step
};

UpdateGroup GroupBy(const OptimizerOptions& options, const Parameter& parameter) {
  const double decay = std::visit(
      Overloaded{[](const SgdOptions& sgd) { return double{sgd.weight_decay}; },
                 [&](const AdamWOptions& adamw) { return WeightDecayOf(adamw, parameter); }},
      options.update);
  return GroupOf(parameter, decay);
}

int64_t ChunksOf(const std::vector<ValueRange>& ranges) {
  int64_t chunks = 0;
  for (const ValueRange& range : ranges) chunks += DivideUp(range.size, kNormChunk);
  return chunks;
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeCudaSgd(DeviceContext& context,
                                                       const SgdOptions& options,
                                                       CudaOptimizer::Shared shared) {
  DP_ASSIGN_OR_RETURN(DeviceBuffer velocity, Zeroes(context, shared.values.size()));
  return std::make_unique<CudaSgd>(context, std::move(shared), options, std::move(velocity));
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeCudaAdamW(DeviceContext& context,
                                                         const AdamWOptions& options,
                                                         CudaOptimizer::Shared shared) {
  const int64_t groups = shared.groups.bytes() / static_cast<int64_t>(sizeof(UpdateGroup));
  CudaAdamW::Memory memory;
  DP_ASSIGN_OR_RETURN(memory.step, DeviceBuffer::Allocate(sizeof(int64_t)));
  DP_ASSIGN_OR_RETURN(memory.factors,
                      DeviceBuffer::Allocate(groups * static_cast<int64_t>(sizeof(AdamWFactors))));
  DP_ASSIGN_OR_RETURN(memory.first, Zeroes(context, shared.values.size()));
  DP_ASSIGN_OR_RETURN(memory.second, Zeroes(context, shared.values.size()));
  return std::make_unique<CudaAdamW>(context, std::move(shared), options, std::move(memory));
}

}  // namespace

absl::StatusOr<CudaOptimizer::Shared> CudaOptimizer::MakeShared(DeviceContext& context,
                                                                const OptimizerOptions& options,
                                                                const ParameterLayout& layout,
                                                                absl::Span<float> values,
                                                                absl::Span<const float> gradients) {
  Shared shared = {.values = values, .gradients = gradients, .clip_norm = options.clip_norm};
  shared.learning_rate =
      std::visit([](const auto& update) { return update.learning_rate; }, options.update);
  const ClippedNorm unclipped;
  DP_ASSIGN_OR_RETURN(shared.rate, DeviceBuffer::Allocate(sizeof(double)));
  DP_ASSIGN_OR_RETURN(shared.clipped, Copied(context, absl::MakeConstSpan(&unclipped, 1)));
  shared.trained = TrainedRanges(layout);
  shared.statistics_begin = layout.Trained().size;
  const UpdateBlocks blocks = UpdateBlocksOf(
      layout, [&](const Parameter& parameter) { return GroupBy(options, parameter); });
  DP_ASSIGN_OR_RETURN(shared.groups, Copied(context, absl::MakeConstSpan(blocks.groups)));
  DP_ASSIGN_OR_RETURN(shared.of_blocks, Copied(context, absl::MakeConstSpan(blocks.of_blocks)));
  shared.average_decay = options.average_decay;
  if (options.average_decay > 0) {
    DP_ASSIGN_OR_RETURN(shared.rest, DeviceBuffer::Allocate(sizeof(double)));
    DP_ASSIGN_OR_RETURN(shared.average, Zeroes(context, values.size()));
  }
  if (options.clip_norm > 0) {
    const int64_t chunks = std::max<int64_t>(1, ChunksOf(shared.trained));
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
  const auto store = [&](double value, const DeviceBuffer& place,
                         std::optional<double>& stored) -> absl::Status {
    if (stored == value) return absl::OkStatus();
    DP_CUDA_RETURN_IF_ERROR(StoreDouble(context_.stream(), value, place.as<double>()));
    stored = value;
    return absl::OkStatus();
  };
  DP_RETURN_IF_ERROR(
      store(shared_.learning_rate * step.learning_rate_factor, shared_.rate, stored_rate_));
  if (shared_.average_decay > 0) {
    const double rest = step.number == 1 ? 1 : 1 - shared_.average_decay;
    DP_RETURN_IF_ERROR(store(rest, shared_.rest, stored_rest_));
  }
  return PrepareNumber(step.number);
}

absl::Status CudaOptimizer::QueueUpdate(ValueRange range, bf16* rounded) {
  DP_RETURN_IF_ERROR(QueueOwnUpdate(range, rounded));
  const int64_t end = range.first + range.size;
  const int64_t first = std::max(range.first, shared_.statistics_begin);
  const ValueRange statistics = {first, std::max<int64_t>(end - first, 0)};
  DP_CUDA_RETURN_IF_ERROR(StepStatistics(context_.stream(), groups(), statistics,
                                         shared_.gradients.data(), shared_.values.data()));
  if (shared_.average_decay == 0) return absl::OkStatus();
  DP_CUDA_RETURN_IF_ERROR(Average(context_.stream(), shared_.rest.as<double>(), range,
                                  shared_.values.data(), shared_.average.as<float>()));
  return QueueCopy(statistics);
}

// Statistics are averages already. torch's AveragedModel copies such buffers, too.
absl::Status CudaOptimizer::QueueCopy(ValueRange statistics) {
  if (statistics.size == 0) return absl::OkStatus();
  DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(
      shared_.average.as<float>() + statistics.first, shared_.values.data() + statistics.first,
      statistics.size * sizeof(float), cudaMemcpyDeviceToDevice, context_.stream()));
  return absl::OkStatus();
}

std::vector<OptimizerState> CudaOptimizer::state() {
  std::vector<OptimizerState> arrays = own_state();
  if (shared_.average_decay > 0) arrays.push_back({kAverageName, Floats(shared_.average)});
  return arrays;
}

absl::Status CudaOptimizer::QueueFactors() {
  if (clips()) DP_RETURN_IF_ERROR(QueueNorm());
  return QueueOwnFactors();
}

absl::Status CudaOptimizer::QueueNorm() {
  double* const sums = shared_.sums.as<double>();
  int64_t chunks = 0;
  for (const ValueRange& range : shared_.trained) {
    DP_CUDA_RETURN_IF_ERROR(SumSquares(context_.stream(), shared_.gradients.data() + range.first,
                                       range.size, kNormChunk, sums + chunks));
    chunks += DivideUp(range.size, kNormChunk);
  }
  DP_CUDA_RETURN_IF_ERROR(ClipNorm(context_.stream(), sums, chunks, shared_.clip_norm,
                                   shared_.clipped.as<ClippedNorm>()));
  return absl::OkStatus();
}

absl::Status CudaOptimizer::Queue(bf16* rounded) {
  DP_RETURN_IF_ERROR(QueueFactors());
  return QueueUpdate({0, static_cast<int64_t>(shared_.values.size())}, rounded);
}

UpdateGroupsOnDevice CudaOptimizer::groups() const {
  const auto size = static_cast<int64_t>(sizeof(UpdateGroup));
  return {.groups = shared_.groups.as<UpdateGroup>(),
          .count = static_cast<int>(shared_.groups.bytes() / size),
          .of_blocks = shared_.of_blocks.as<uint8_t>()};
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
                      CudaOptimizer::MakeShared(context, options, layout, values, gradients));
  return std::visit(Overloaded{[&](const SgdOptions& sgd) {
                                 return MakeCudaSgd(context, sgd, std::move(shared));
                               },
                               [&](const AdamWOptions& adamw) {
                                 return MakeCudaAdamW(context, adamw, std::move(shared));
                               }},
                    options.update);
}

}  // namespace dp::engine::cuda
