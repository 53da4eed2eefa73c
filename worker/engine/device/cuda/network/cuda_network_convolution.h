#pragma once

#include "worker/engine/device/cuda/libraries/cuda_convolution.h"
#include "worker/engine/device/cuda/network/cuda_network_operation.h"

namespace dp::engine::cuda {

// One pass of a convolution, by the library. Errors: as ConvolutionPlan::Make.
MadeOperation MakeConvolutionPass(OperationParts& parts, const ConvolutionShape& shape,
                                  ConvolutionPass pass, const ConvolutionOperands& operands);

}  // namespace dp::engine::cuda
