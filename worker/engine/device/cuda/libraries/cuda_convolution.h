#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/libraries/cuda_convolution_graph.h"
#include "worker/engine/device/cuda/libraries/cuda_cudnn_plan.h"
#include "worker/engine/device/cuda/plans/cuda_planning.h"

namespace dp::engine::cuda {

// Addresses in device memory, aligned to 16 bytes. kForward reads in, weight and bias and writes
// out. kBackwardData reads weight and the gradient of out, and writes the gradient of in.
// kBackwardFilter reads in and the gradient of out, and writes the gradient of weight. A gradient
// takes the place of its tensor. ColumnSums computes the bias's gradient: cuDNN's own takes most of
// a step in this layout.
struct ConvolutionOperands {
  void* in = nullptr;
  void* weight = nullptr;
  void* bias = nullptr;
  void* out = nullptr;
};

// One pass of one convolution through cuDNN's graph API, only with engines that give the same bits
// in every run. May serve all layers of its shape. Not thread-safe.
class ConvolutionPlan {
 public:
  // With Tuning::kTimed, unless the cache knows the shape, runs the candidates on `scratch`. They
  // read what the pass reads, which may hold anything, and overwrite what the pass writes. kFirst
  // does not read `scratch`.
  // Errors: Unimplemented cuDNN has no engine.
  static absl::StatusOr<ConvolutionPlan> Make(const Planning& planning,
                                              const ConvolutionShape& shape, ConvolutionPass pass,
                                              const ConvolutionOperands& scratch);

  // Queues the pass. Waits for nothing and allocates nothing on the device. May be captured, but
  // only after a run outside a capture.
  absl::Status Run(cudaStream_t stream, const ConvolutionOperands& operands);

 private:
  ConvolutionPlan(bool bias, CudnnPlan plan) : bias_(bias), plan_(std::move(plan)) {}

  bool bias_;
  CudnnPlan plan_;
};

}  // namespace dp::engine::cuda
