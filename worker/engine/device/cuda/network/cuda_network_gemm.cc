#include "worker/engine/device/cuda/network/cuda_network_gemm.h"

#include <utility>

#include "base/status.h"

namespace dp::engine::cuda {

absl::StatusOr<BoundGemm> BoundGemm::Make(OperationParts& parts, const GemmShape& shape,
                                          const GemmOperands& operands) {
  std::shared_ptr<GemmPlan>& plan = parts.gemms[Describe(shape)];
  if (plan == nullptr) {
    DP_ASSIGN_OR_RETURN(GemmPlan made, GemmPlan::Make(parts.planning, shape, operands));
    plan = std::make_shared<GemmPlan>(std::move(made));
  }
  BoundGemm gemm;
  gemm.plan_ = plan;
  gemm.operands_ = operands;
  gemm.has_epilogue_ = shape.epilogue != Epilogue::kNone;
  return gemm;
}

absl::StatusOr<BoundGemm> BoundGemm::MakeWith(Epilogue epilogue, OperationParts& parts,
                                              GemmShape shape, const GemmOperands& operands) {
  shape.epilogue = epilogue;
  absl::StatusOr<BoundGemm> gemm = Make(parts, shape, operands);
  if (!absl::IsUnimplemented(gemm.status())) return gemm;
  parts.gemms.erase(Describe(shape));
  shape.epilogue = Epilogue::kNone;
  return Make(parts, shape, {.a = operands.a, .b = operands.b, .out = operands.out});
}

}  // namespace dp::engine::cuda
