#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/cuda_convolution_graph.h"
#include "worker/engine/device/cuda/cuda_cudnn_plan.h"
#include "worker/engine/device/cuda/cuda_planning.h"

namespace dp::engine::cuda {

// Device memory, aligned to 16 bytes. In a backward pass each tensor is the gradient of what it is
// named after, but for the inputs of the pass in forward: kForward reads in, weight and bias and
// writes out; kBackwardData reads weight and out and writes in; kBackwardFilter reads in and out
// and writes weight. The gradient of the bias is ColumnSums' work: cuDNN's own takes most of a step
// in this layout.
struct ConvolutionOperands {
  void* in = nullptr;
  void* weight = nullptr;
  void* bias = nullptr;
  void* out = nullptr;
};

// One pass of one convolution through cuDNN's graph API, with engines alone that give the same bits
// in every run. May serve all layers of its shape. Not
// thread-safe.
class ConvolutionPlan {
 public:
  // With Tuning::kTimed and unless the cache knows the shape, runs the candidates on `scratch`:
  // reads what the pass reads, which may hold anything, and overwrites what it writes. With kFirst
  // `scratch` is not looked at.
  // Errors: Unimplemented where cuDNN has no engine.
  static absl::StatusOr<ConvolutionPlan> Make(const Planning& planning,
                                              const ConvolutionShape& shape, ConvolutionPass pass,
                                              const ConvolutionOperands& scratch);

  // Queues the pass. Waits for nothing and allocates nothing on the device; may be captured, after
  // a run that was not.
  absl::Status Run(cudaStream_t stream, const ConvolutionOperands& operands);

 private:
  ConvolutionPlan(bool bias, CudnnPlan plan) : bias_(bias), plan_(std::move(plan)) {}

  bool bias_;
  CudnnPlan plan_;
};

}  // namespace dp::engine::cuda
