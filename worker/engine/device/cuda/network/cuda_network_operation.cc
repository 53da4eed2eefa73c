#include "worker/engine/device/cuda/network/cuda_network_operation.h"

namespace dp::engine::cuda {

MadeOperation MakeOperationOf(OperationParts& parts, const Operation& operation) {
  parts.scratch = operation.scratch;
  if (parts.program.precision == Precision::kBfloat16) {
    return std::visit(OperationMaker<bf16>{parts}, operation.kind);
  }
  return std::visit(OperationMaker<float>{parts}, operation.kind);
}

}  // namespace dp::engine::cuda
