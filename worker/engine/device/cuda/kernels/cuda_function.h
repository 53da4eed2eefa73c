#pragma once

// The functions of each value that layers and kernels know. Pure.

namespace dp::engine::cuda {

enum class Function { kNone, kRelu, kGelu, kExactGelu, kSilu, kTanh, kSigmoid };

// Whether the derivative is computed from the function's output. It is computed from the input
// otherwise.
constexpr bool SavesOutput(Function function) {
  return function == Function::kRelu || function == Function::kTanh ||
         function == Function::kSigmoid;
}

}  // namespace dp::engine::cuda
