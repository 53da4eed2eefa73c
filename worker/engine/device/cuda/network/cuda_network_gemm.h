#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/libraries/cuda_gemm.h"
#include "worker/engine/device/cuda/network/cuda_network_operation.h"

namespace dp::engine::cuda {

// A product with its operands. All products of a shape share its plan.
class BoundGemm {
 public:
  // Errors: as GemmPlan::Make.
  static absl::StatusOr<BoundGemm> Make(OperationParts& parts, const GemmShape& shape,
                                        const GemmOperands& operands);
  // The same with `epilogue`. If the library does not support it, the product has none and
  // has_epilogue() is false: the caller then does the epilogue's work.
  static absl::StatusOr<BoundGemm> MakeWith(Epilogue epilogue, OperationParts& parts,
                                            GemmShape shape, const GemmOperands& operands);

  bool has_epilogue() const { return has_epilogue_; }
  absl::Status Run(cudaStream_t stream) { return plan_->Run(stream, operands_); }

 private:
  std::shared_ptr<GemmPlan> plan_;
  GemmOperands operands_;
  bool has_epilogue_ = false;
};

}  // namespace dp::engine::cuda
