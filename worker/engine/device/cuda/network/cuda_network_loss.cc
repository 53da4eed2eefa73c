#include "worker/engine/device/cuda/network/cuda_network_loss.h"

#include "base/overloaded.h"
#include "worker/engine/device/cuda/losses/cuda_cross_entropy.h"
#include "worker/engine/device/cuda/losses/cuda_label_smoothing.h"
#include "worker/engine/device/cuda/losses/cuda_output_loss.h"
#include "worker/engine/device/cuda/network/cuda_network_shapes.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {
namespace {

OutputLossKind KindOf(const MseLoss&) { return OutputLossKind::kMse; }
OutputLossKind KindOf(const L1Loss&) { return OutputLossKind::kL1; }
OutputLossKind KindOf(const BceLoss&) { return OutputLossKind::kBce; }
OutputLossKind KindOf(const NormLoss&) { return OutputLossKind::kNorm; }

OutputLossShape OutputsOf(const op::TakeLoss& o) { return {o.samples, o.classes}; }

template <typename T>
struct LossQueue {
  cudaStream_t stream;
  const LayerProgram& program;
  const NetworkMemory& memory;
  void* scratch;
  bool with_gradient;
  float* tail;

  T* logits() const { return memory.array<T>(program.take_loss().logits); }
  T* gradient() const {
    return with_gradient ? memory.array<T>(program.take_loss().gradient) : nullptr;
  }

  absl::Status operator()(const CrossEntropyLoss& loss) const {
    const LogitsShape shape = ShapeOf(program.take_loss());
    const auto* labels = memory.array<int32_t>(program.labels);
    auto* const row_terms =
        reinterpret_cast<float*>(static_cast<char*>(scratch) + CrossEntropyWorkspace(shape));
    const auto smoothing = static_cast<float>(loss.label_smoothing);
    if (smoothing > 0) {
      DP_CUDA_RETURN_IF_ERROR(MeasureSmoothing<T>(stream, logits(), labels, shape, smoothing,
                                                  memory.step(), row_terms));
    }
    DP_CUDA_RETURN_IF_ERROR(SoftmaxCrossEntropy<T>(stream, logits(), labels, shape, memory.step(),
                                                   scratch, memory.sums(), gradient(), tail));
    if (smoothing > 0) {
      const LossOutput output = {memory.step(), memory.sums(), tail};
      DP_CUDA_RETURN_IF_ERROR(
          AddSmoothing<T>(stream, row_terms, labels, shape, smoothing, output, gradient()));
    }
    return absl::OkStatus();
  }
  template <typename Kind>
  absl::Status operator()(const Kind& loss) const {
    DP_CUDA_RETURN_IF_ERROR(OutputLoss<T>(
        stream, KindOf(loss), logits(), memory.array<float>(program.targets),
        OutputsOf(program.take_loss()), memory.step(), scratch, memory.sums(), gradient(), tail));
    return absl::OkStatus();
  }
};

}  // namespace

int64_t LossWorkspace(const op::TakeLoss& o) {
  return std::visit(
      Overloaded{[&](const CrossEntropyLoss& loss) {
                   const LogitsShape shape = ShapeOf(o);
                   const auto terms = shape.rows() * static_cast<int64_t>(sizeof(float));
                   return CrossEntropyWorkspace(shape) + (loss.label_smoothing > 0 ? terms : 0);
                 },
                 [&](const auto&) { return OutputLossWorkspace(OutputsOf(o)); }},
      o.loss);
}

absl::Status QueueLoss(cudaStream_t stream, const LayerProgram& program,
                       const NetworkMemory& memory, void* scratch, bool with_gradient,
                       float* tail) {
  const Loss& loss = program.take_loss().loss;
  if (program.precision == Precision::kBfloat16) {
    return std::visit(LossQueue<bf16>{stream, program, memory, scratch, with_gradient, tail}, loss);
  }
  return std::visit(LossQueue<float>{stream, program, memory, scratch, with_gradient, tail}, loss);
}

}  // namespace dp::engine::cuda
