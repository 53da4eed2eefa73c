#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/cuda_element_type.h"
#include "worker/engine/device/cuda/cuda_planning.h"

namespace dp::engine::cuda {

enum class ConvolutionPass { kForward, kBackwardData, kBackwardFilter };

// A square convolution over images of batch x height x width x channels: model::Conv2d, channels
// last. Its weights are out x kernel x kernel x in. Multiples of 8 channels reach bfloat16's tensor
// cores at their full speed.
struct ConvolutionShape {
  int64_t batch = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t in = 0;   // channels
  int64_t out = 0;  // channels
  int64_t kernel = 0;
  int64_t stride = 1;
  int64_t padding = 0;
  ElementType type = ElementType::kFloat32;  // of all tensors
  // Of kForward: adds a bias, then sets what is below 0 to 0.
  bool bias = false;
  bool relu = false;
  bool tf32 = false;  // float32 products in TF32's 10 bits; otherwise in full

  int64_t out_height() const { return (height + 2 * padding - kernel) / stride + 1; }
  int64_t out_width() const { return (width + 2 * padding - kernel) / stride + 1; }
};

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

// For the cache and for errors: "conv forward n=8 28x28x16>32 k=3 s=1 p=1 float32 bias relu".
std::string Describe(const ConvolutionShape& shape, ConvolutionPass pass);

// One pass of one convolution through cuDNN's graph API, with engines alone that give the same bits
// in every run. Owned by a layer; not thread-safe.
class ConvolutionPlan {
 public:
  // With Tuning::kTimed and unless the cache knows the shape, runs the candidates on `scratch`:
  // reads what the pass reads, which may hold anything, and overwrites what it writes.
  // Errors: Unimplemented where cuDNN has no engine.
  static absl::StatusOr<ConvolutionPlan> Make(const Planning& planning,
                                              const ConvolutionShape& shape, ConvolutionPass pass,
                                              const ConvolutionOperands& scratch);

  ConvolutionPlan(ConvolutionPlan&&) noexcept;
  ConvolutionPlan& operator=(ConvolutionPlan&&) noexcept;
  ~ConvolutionPlan();

  // Queues the pass. Waits for nothing and allocates nothing; may be captured.
  absl::Status Run(cudaStream_t stream, const ConvolutionOperands& operands);

 private:
  struct Graph;
  explicit ConvolutionPlan(std::unique_ptr<Graph> graph);

  std::unique_ptr<Graph> graph_;
};

}  // namespace dp::engine::cuda
