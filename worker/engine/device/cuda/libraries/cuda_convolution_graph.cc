#include "worker/engine/device/cuda/libraries/cuda_convolution_graph.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dp::engine::cuda {
namespace {

absl::string_view PassName(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::kForward:
      return "forward";
    case ConvolutionPass::kBackwardData:
      return "backward-data";
    case ConvolutionPass::kBackwardFilter:
      return "backward-filter";
  }
  return "";
}

TensorLayout ChannelsLast(int64_t samples, int64_t channels, int64_t rows, int64_t columns) {
  return {.sizes = {samples, channels, rows, columns},
          .strides = {rows * columns * channels, 1, columns * channels, channels}};
}

// Adds the forward convolution, then bias and ReLU in float32.
void AddForward(const ConvolutionShape& shape, const CudnnGraph::Window& window,
                CudnnGraph* graph) {
  const ConvolutionLayouts layouts = LayoutsOf(shape);
  const cudnnDataType_t type = CudnnType(shape.type);
  const auto in = graph->Stored(layouts.in, type);
  const auto weight = graph->Stored(layouts.weight, type);
  const auto bias = shape.bias ? graph->Stored(layouts.bias, type) : -1;
  const auto out = graph->Stored(layouts.out, type);
  const auto between = [&](bool last) {
    return last ? out : graph->Virtual(layouts.out, CUDNN_DATA_FLOAT);
  };
  auto result = between(!shape.bias && !shape.relu);
  graph->ConvolveForward(window, in, weight, result);
  if (shape.bias) {
    const auto sum = between(!shape.relu);
    graph->Pointwise(CUDNN_POINTWISE_ADD, result, bias, sum);
    result = sum;
  }
  if (shape.relu) graph->Pointwise(CUDNN_POINTWISE_RELU_FWD, result, out);
}

}  // namespace

std::string Describe(const ConvolutionShape& shape, ConvolutionPass pass) {
  const bool forward = pass == ConvolutionPass::kForward;
  return absl::StrCat(
      "conv ", PassName(pass), " n=", shape.batch, " ", shape.height, "x", shape.width, "x",
      shape.in, ">", shape.out, " k=", shape.kernel, " s=", shape.stride, " p=", shape.padding,
      shape.dilation > 1 ? absl::StrCat(" d=", shape.dilation) : "",
      shape.groups > 1 ? absl::StrCat(" g=", shape.groups) : "", shape.one_row ? " 1d " : " ",
      Name(shape.type), forward && shape.bias ? " bias" : "", forward && shape.relu ? " relu" : "",
      shape.tf32 ? " tf32" : "");
}

ConvolutionLayouts LayoutsOf(const ConvolutionShape& shape) {
  return {.in = ChannelsLast(shape.batch, shape.in, shape.height, shape.width),
          .weight = ChannelsLast(shape.out, shape.group_in(), shape.kernel_rows(), shape.kernel),
          .bias = ChannelsLast(1, shape.out, 1, 1),
          .out = ChannelsLast(shape.batch, shape.out, shape.out_height(), shape.out_width())};
}

CudnnGraph MakeGraph(const ConvolutionShape& shape, ConvolutionPass pass) {
  CudnnGraph graph;
  const CudnnGraph::Window window{.strides = {shape.row_stride(), shape.stride},
                                  .padding = {shape.row_padding(), shape.padding},
                                  .dilations = {shape.dilation, shape.dilation}};
  if (pass == ConvolutionPass::kForward) {
    AddForward(shape, window, &graph);
    return graph;
  }
  const ConvolutionLayouts layouts = LayoutsOf(shape);
  const cudnnDataType_t type = CudnnType(shape.type);
  const auto in = graph.Stored(layouts.in, type);
  const auto weight = graph.Stored(layouts.weight, type);
  const auto out = graph.Stored(layouts.out, type);
  if (pass == ConvolutionPass::kBackwardData) {
    graph.ConvolveBackwardData(window, out, weight, in);
  } else {
    graph.ConvolveBackwardFilter(window, in, out, weight);
  }
  return graph;
}

}  // namespace dp::engine::cuda
