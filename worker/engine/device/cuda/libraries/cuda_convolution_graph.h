#pragma once

#include <cstdint>
#include <string>

#include "worker/engine/device/cuda/libraries/cuda_cudnn_graph.h"
#include "worker/engine/device/cuda/libraries/cuda_element_type.h"

namespace dp::engine::cuda {

enum class ConvolutionPass { kForward, kBackwardData, kBackwardFilter };

// A square convolution over images of batch x height x width x channels: model::Conv2d with
// channels last; or over sequences, whose height is 1: model::Conv1d. Its weights are out x kernel
// x kernel x in of a group, for sequences out x 1 x kernel x in of a group. With multiples of 8
// channels bfloat16's tensor cores reach their full speed.
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
  // kForward adds a bias, then sets results below 0 to 0.
  bool bias = false;
  bool relu = false;
  bool tf32 = false;  // rounds float32 factors to TF32's 10 bits; otherwise computes in full
  int64_t groups = 1;
  int64_t dilation = 1;
  bool one_row = false;  // a sequence

  int64_t kernel_rows() const { return one_row ? 1 : kernel; }
  int64_t row_stride() const { return one_row ? 1 : stride; }
  int64_t row_padding() const { return one_row ? 0 : padding; }
  int64_t places() const { return kernel_rows() * kernel; }  // of a window
  int64_t group_in() const { return in / groups; }
  int64_t out_height() const {
    return (height + 2 * row_padding() - (kernel_rows() - 1) * dilation - 1) / row_stride() + 1;
  }
  int64_t out_width() const {
    return (width + 2 * padding - (kernel - 1) * dilation - 1) / stride + 1;
  }
};

// For the cache and for errors: "conv forward n=8 28x28x16>32 k=3 s=1 p=1 float32 bias relu".
std::string Describe(const ConvolutionShape& shape, ConvolutionPass pass);

// The tensors of a convolution with cuDNN's axes: samples (of the weight, outputs), channels, rows,
// columns. Channels are fastest in memory.
struct ConvolutionLayouts {
  TensorLayout in;
  TensorLayout weight;
  TensorLayout bias;
  TensorLayout out;
};
ConvolutionLayouts LayoutsOf(const ConvolutionShape& shape);

// The pass as cuDNN is to compute it. Stored are in, weight, the bias if kForward adds one, and
// out.
CudnnGraph MakeGraph(const ConvolutionShape& shape, ConvolutionPass pass);

}  // namespace dp::engine::cuda
