#include "worker/engine/device/cuda/network/cuda_network.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "worker/engine/device/cuda/kernels/cuda_cast.h"
#include "worker/engine/device/cuda/network/cuda_network_loss.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {
namespace {

// A slot that the host fills while the device reads another, and one for the scale of each.
constexpr int kStagingSlots = 4;

bool HasFusedAttention(const LayerProgram& program) {
  for (const Operation& operation : program.operations) {
    const auto* attend = std::get_if<op::Attend>(&operation.kind);
    if (attend != nullptr && attend->size.fused) return true;
  }
  return false;
}

float FloatOf(uint16_t bf16_bits) {
  const uint32_t bits = uint32_t{bf16_bits} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace

CudaNetwork::CudaNetwork(DeviceContext& context, LayerProgram program)
    : context_(context), program_(std::move(program)) {}

absl::StatusOr<std::unique_ptr<CudaNetwork>> CudaNetwork::Make(
    DeviceContext& context, absl::Span<const model::CheckedLayer> layers,
    const NetworkOptions& options, absl::Span<const float> values, absl::Span<float> gradients) {
  DP_RETURN_IF_ERROR(CheckPlannable(layers, options.loss));
  for (const bool fused_attention : {true, false}) {
    LayerProgram program = PlanLayers(
        layers,
        {.network = options, .fused_attention = fused_attention, .scratch_bytes = ScratchBytes});
    std::unique_ptr<CudaNetwork> network(new CudaNetwork(context, std::move(program)));
    const absl::Status prepared = network->Prepare(values, gradients);
    if (prepared.ok()) return network;
    // If the library has no attention of its own, ours serves.
    if (!absl::IsUnimplemented(prepared) || !HasFusedAttention(network->program())) return prepared;
  }
  DP_CHECK(false);
  return absl::InternalError("");
}

absl::Status CudaNetwork::Prepare(absl::Span<const float> values, absl::Span<float> gradients) {
  DP_ASSIGN_OR_RETURN(NetworkMemory memory,
                      NetworkMemory::Allocate(program_, values, gradients, context_.stream()));
  memory_ = std::make_unique<NetworkMemory>(std::move(memory));
  DP_ASSIGN_OR_RETURN(staging_, PinnedRing::Make(kStagingSlots, memory_->block().bytes));
  // Plans are tuned on the arrays. Products of numbers like a step's take more power than products
  // of zeros, and thus run at another clock.
  DP_RETURN_IF_ERROR(RoundValues());
  DP_RETURN_IF_ERROR(memory_->FillAtRandom(context_.stream()));
  OperationParts parts = {program_, *memory_, context_.planning()};
  for (const Operation& operation : program_.operations) {
    DP_ASSIGN_OR_RETURN(std::unique_ptr<CudaOperation> made, MakeOperationOf(parts, operation));
    operations_.push_back(std::move(made));
  }
  loss_scratch_ = memory_->array<void>(program_.operations[program_.loss].scratch);
  return context_.Synchronize();
}

BatchResult CudaNetwork::Forward(const Batch& batch, Mode mode) {
  LossSums sums;
  context_.Use();
  context_.Do([&]() -> absl::Status {
    DP_RETURN_IF_ERROR(Stage(batch));
    DP_RETURN_IF_ERROR(RoundValues());
    DP_RETURN_IF_ERROR(RunForward(mode));
    DP_RETURN_IF_ERROR(RunLoss(/*with_gradient=*/false));
    DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(&sums, memory_->sums(), sizeof(sums),
                                            cudaMemcpyDeviceToHost, context_.stream()));
    return context_.Synchronize();
  });
  return {.loss_sum = sums.loss_sum, .correct = sums.correct, .count = batch.count};
}

void CudaNetwork::Backward(float scale, const GradientReady& ready) {
  if (program_.take_loss().gradient == kNone) return;
  context_.Use();
  context_.Do([&]() -> absl::Status {
    DP_RETURN_IF_ERROR(StageScale(scale));
    return RunLoss(/*with_gradient=*/true);
  });
  for (size_t i = program_.loss + 1; i < operations_.size(); ++i) {
    context_.Do([&] { return Run(i, Mode::kTrain); });
    // Also after an error, because peers wait for every gradient.
    for (const int parameter : program_.operations[i].completes) ready(parameter);
  }
}

absl::Status CudaNetwork::QueueOperations(size_t begin, size_t end, float* tail) {
  const auto loss = static_cast<size_t>(program_.loss);
  const bool trains = program_.take_loss().gradient != kNone;
  for (size_t i = begin; i < end; ++i) {
    DP_RETURN_IF_ERROR(i == loss ? RunLoss(trains, tail) : Run(i, Mode::kTrain));
  }
  return absl::OkStatus();
}

absl::Status CudaNetwork::RoundValues() {
  if (memory_->rounded() == nullptr) return absl::OkStatus();
  DP_CUDA_RETURN_IF_ERROR((Cast<float, bf16>(context_.stream(), memory_->values(),
                                             memory_->values_size(), memory_->rounded())));
  return absl::OkStatus();
}

absl::Status CudaNetwork::Stage(const Batch& batch) {
  DP_ASSIGN_OR_RETURN(void* slot, staging_.Acquire());
  auto* const block = static_cast<char*>(slot);
  FillBatchBlock(program_, memory_->block(), batch, block);
  step_ = {.count = batch.count, .draw = batch.draw};
  std::memcpy(block + memory_->block().step, &step_, sizeof(step_));
  DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(memory_->batch(), block, memory_->block().bytes,
                                          cudaMemcpyHostToDevice, context_.stream()));
  return staging_.Release(context_.stream());
}

absl::Status CudaNetwork::StageScale(float scale) {
  DP_ASSIGN_OR_RETURN(void* slot, staging_.Acquire());
  step_.gradient_scale = scale;
  std::memcpy(slot, &step_, sizeof(step_));
  DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(memory_->step(), slot, sizeof(step_),
                                          cudaMemcpyHostToDevice, context_.stream()));
  return staging_.Release(context_.stream());
}

absl::Status CudaNetwork::RunForward(Mode mode) {
  for (int i = 0; i < program_.loss; ++i) DP_RETURN_IF_ERROR(Run(i, mode));
  return absl::OkStatus();
}

absl::Status CudaNetwork::RunLoss(bool with_gradient, float* tail) {
  return QueueLoss(context_.stream(), program_, *memory_, loss_scratch_, with_gradient, tail);
}

void CudaNetwork::ReadLogits(absl::Span<float> logits) const {
  context_.Use();
  context_.Do([&] { return CopyLogits(logits); });
}

absl::Status CudaNetwork::CopyLogits(absl::Span<float> logits) const {
  const op::TakeLoss& o = program_.take_loss();
  const int64_t rows = o.samples * o.rows_per_sample;
  DP_CHECK(static_cast<int64_t>(logits.size()) == rows * o.classes);
  const int64_t bytes = BytesOf(Stored::kActivation, program_.precision);
  const bool rounded = program_.precision == Precision::kBfloat16;
  std::vector<uint16_t> halves(rounded ? logits.size() : 0);
  void* const to = rounded ? static_cast<void*>(halves.data()) : logits.data();
  DP_CUDA_RETURN_IF_ERROR(cudaMemcpy2DAsync(to, o.classes * bytes, memory_->array<void>(o.logits),
                                            o.stride * bytes, o.classes * bytes, rows,
                                            cudaMemcpyDeviceToHost, context_.stream()));
  DP_RETURN_IF_ERROR(context_.Synchronize());
  for (size_t i = 0; i < halves.size(); ++i) logits[i] = FloatOf(halves[i]);
  return absl::OkStatus();
}

}  // namespace dp::engine::cuda
