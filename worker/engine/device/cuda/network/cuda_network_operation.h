#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/layers/cuda_layers.h"
#include "worker/engine/device/cuda/libraries/cuda_attention_plan.h"
#include "worker/engine/device/cuda/libraries/cuda_gemm.h"
#include "worker/engine/device/cuda/network/cuda_network_memory.h"
#include "worker/engine/device/cuda/plans/cuda_planning.h"
#include "worker/engine/device/cuda/runtime/cuda_memory.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

// Makes a program's operations ready to run. T is float or bf16, the program's precision.

namespace dp::engine::cuda {

// One operation with its addresses and plans. Queues work and waits for nothing, so it may be
// captured. Owned by its network, whose other operations may share its plans.
class CudaOperation {
 public:
  virtual ~CudaOperation() = default;
  virtual absl::Status Run(cudaStream_t stream, Mode mode) = 0;
};

// `run` is a function (cudaStream_t, Mode) -> absl::Status.
template <typename Function>
std::unique_ptr<CudaOperation> MakeOperation(Function run) {
  class OfFunction final : public CudaOperation {
   public:
    explicit OfFunction(Function run) : run_(std::move(run)) {}
    absl::Status Run(cudaStream_t stream, Mode mode) override { return run_(stream, mode); }

   private:
    Function run_;
  };
  return std::make_unique<OfFunction>(std::move(run));
}

// `launch` is a function (cudaStream_t) -> cudaError_t that launches a kernel.
template <typename Launch>
std::unique_ptr<CudaOperation> MakeLaunch(Launch launch) {
  return MakeOperation([launch](cudaStream_t stream, Mode) -> absl::Status {
    DP_CUDA_RETURN_IF_ERROR(launch(stream));
    return absl::OkStatus();
  });
}

// The inputs for making operations. A plan is made once for a shape, however many layers have it.
struct OperationParts {
  const LayerProgram& program;
  const NetworkMemory& memory;
  const Planning planning;
  std::map<std::string, std::shared_ptr<GemmPlan>> gemms = {};
  std::map<std::string, std::shared_ptr<AttentionPlan>> attentions = {};
  std::map<std::string, std::shared_ptr<DeviceBuffer>> rotations = {};  // tables of angles
  ArrayId scratch = kNone;  // of the operation being made

  template <typename T>
  T* array(ArrayId id) const {
    return memory.array<T>(id);
  }
};

template <typename T>
constexpr ElementType ElementOf() {
  return std::is_same_v<T, bf16> ? ElementType::kBfloat16 : ElementType::kFloat32;
}

using MadeOperation = absl::StatusOr<std::unique_ptr<CudaOperation>>;

// The loss becomes a no-op, because the network runs it, with or without its gradient.
// Errors: Unimplemented no kernel or library does the operation; otherwise the plans' errors.
MadeOperation MakeOperationOf(OperationParts& parts, const Operation& operation);

// One method for each kind, in cuda_network_{batch_norm,dense,image,rotary,text}.cc.
template <typename T>
struct OperationMaker {
  OperationParts& parts;

  MadeOperation operator()(const op::TakeImages& o) const;
  MadeOperation operator()(const op::Embed& o) const;
  MadeOperation operator()(const op::AddPositions& o) const;
  MadeOperation operator()(const op::Norm& o) const;
  MadeOperation operator()(const op::Linear& o) const;
  MadeOperation operator()(const op::OrderWeight& o) const;
  MadeOperation operator()(const op::Convolve& o) const;
  MadeOperation operator()(const op::Pool& o) const;
  MadeOperation operator()(const op::MeanPool& o) const;
  MadeOperation operator()(const op::BatchNorm& o) const;
  MadeOperation operator()(const op::Apply& o) const;
  MadeOperation operator()(const op::Sum& o) const;
  MadeOperation operator()(const op::Drop& o) const;
  MadeOperation operator()(const op::Transpose& o) const;
  MadeOperation operator()(const op::Softmax& o) const;
  MadeOperation operator()(const op::Rotate& o) const;
  MadeOperation operator()(const op::Attend& o) const;
  MadeOperation operator()(const op::Convert& o) const;
  MadeOperation operator()(const op::TakeLoss& o) const;
  MadeOperation operator()(const op::ApplyGradient& o) const;
  MadeOperation operator()(const op::BiasGradient& o) const;
  MadeOperation operator()(const op::LinearWeightGradient& o) const;
  MadeOperation operator()(const op::LinearInputGradient& o) const;
  MadeOperation operator()(const op::ConvolutionWeightGradient& o) const;
  MadeOperation operator()(const op::ConvolutionInputGradient& o) const;
  MadeOperation operator()(const op::PoolGradient& o) const;
  MadeOperation operator()(const op::MeanPoolGradient& o) const;
  MadeOperation operator()(const op::BatchNormGradient& o) const;
  MadeOperation operator()(const op::PassStatistics& o) const;
  MadeOperation operator()(const op::NormGradient& o) const;
  MadeOperation operator()(const op::SoftmaxGradient& o) const;
  MadeOperation operator()(const op::AttendGradient& o) const;
  MadeOperation operator()(const op::PositionsGradient& o) const;
  MadeOperation operator()(const op::ZeroGradient& o) const;
  MadeOperation operator()(const op::EmbeddingGradient& o) const;

  template <typename E>
  E* array(ArrayId id) const {
    return parts.memory.array<E>(id);
  }
  bool tf32() const { return parts.program.precision == Precision::kTf32; }
  // GemmShape::sms of backward's products, beside which collectives run.
  int backward_sms() const {
    return SmsBeside(parts.program.collective_blocks, parts.planning.libraries.sms());
  }
  float* scratch() const { return array<float>(parts.scratch); }
};

// Bytes of scratch that an operation of `program` needs, for LayerProgramOptions.
int64_t ScratchBytes(const LayerProgram& program, const OperationKind& kind);

}  // namespace dp::engine::cuda
