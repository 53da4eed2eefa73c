#include "worker/engine/device/cuda/libraries/cuda_convolution.h"

#include <vector>

#include "base/status.h"

namespace dp::engine::cuda {
namespace {

// The addresses in the order of MakeGraph's stored tensors.
std::vector<void*> Addresses(const ConvolutionOperands& operands, bool bias) {
  if (!bias) return {operands.in, operands.weight, operands.out};
  return {operands.in, operands.weight, operands.bias, operands.out};
}

}  // namespace

absl::StatusOr<ConvolutionPlan> ConvolutionPlan::Make(const Planning& planning,
                                                      const ConvolutionShape& shape,
                                                      ConvolutionPass pass,
                                                      const ConvolutionOperands& scratch) {
  const bool bias = shape.bias && pass == ConvolutionPass::kForward;
  const CudnnPlanOptions options{
      .name = Describe(shape, pass),
      .exactness = {.full_float32 = shape.type == ElementType::kFloat32 && !shape.tf32}};
  DP_ASSIGN_OR_RETURN(CudnnPlan plan, CudnnPlan::Make(planning, MakeGraph(shape, pass), options,
                                                      Addresses(scratch, bias)));
  return ConvolutionPlan(bias, std::move(plan));
}

absl::Status ConvolutionPlan::Run(cudaStream_t stream, const ConvolutionOperands& operands) {
  return plan_.Run(stream, Addresses(operands, bias_));
}

}  // namespace dp::engine::cuda
