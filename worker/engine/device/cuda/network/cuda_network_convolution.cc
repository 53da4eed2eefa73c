#include "worker/engine/device/cuda/network/cuda_network_convolution.h"

#include <memory>
#include <utility>

#include "base/status.h"

namespace dp::engine::cuda {

MadeOperation MakeConvolutionPass(OperationParts& parts, const ConvolutionShape& shape,
                                  ConvolutionPass pass, const ConvolutionOperands& operands) {
  DP_ASSIGN_OR_RETURN(ConvolutionPlan made,
                      ConvolutionPlan::Make(parts.planning, shape, pass, operands));
  return MakeOperation([plan = std::make_unique<ConvolutionPlan>(std::move(made)), operands](
                           cudaStream_t stream, Mode) { return plan->Run(stream, operands); });
}

}  // namespace dp::engine::cuda
