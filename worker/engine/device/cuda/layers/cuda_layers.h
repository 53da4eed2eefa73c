#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/model/pool_axis.h"
#include "base/model/shape_check.h"
#include "worker/engine/device/cuda/kernels/cuda_function.h"
#include "worker/engine/device/cuda/runtime/cuda_arena_plan.h"
#include "worker/engine/device/device.h"

// A model as the list of operations that a GPU runs. It says which layers are fused, which arrays
// lie between operations and for how long, and in what order gradients are completed. Pure:
// planning and its tests need no toolkit. CudaNetwork runs it.

namespace dp::engine::cuda {

// An array between operations: its index in LayerProgram::arrays. kNone means no array.
using ArrayId = int;
inline constexpr ArrayId kNone = -1;

// kActivation is float, or bf16 in that precision.
enum class Stored { kActivation, kFloat, kInt32, kInt64, kByte };

// An array that is needed from operation `first` to operation `last`, both included.
struct ProgramArray {
  Stored stored = Stored::kActivation;
  int64_t size = 0;  // elements
  int first = 0;
  int last = 0;
};

// The functions by the layers that are one.
constexpr Function FunctionOf(const model::Relu&) { return Function::kRelu; }
constexpr Function FunctionOf(const model::Gelu& gelu) {
  return gelu.exact ? Function::kExactGelu : Function::kGelu;
}
constexpr Function FunctionOf(const model::Silu&) { return Function::kSilu; }
constexpr Function FunctionOf(const model::Tanh&) { return Function::kTanh; }
constexpr Function FunctionOf(const model::Sigmoid&) { return Function::kSigmoid; }

// `count` matrices one after another.
struct MatrixRun {
  int64_t count = 0;
  int64_t rows = 0;
  int64_t columns = 0;
};

// A convolution or a pooling over images with channels last. A pooling has `in` equal to `out`. A
// sequence is an image of one row.
struct Window {
  int64_t samples = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t in = 0;
  int64_t out = 0;
  int64_t kernel = 0;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
  bool one_row = false;  // windows, strides and padding are along columns alone

  int64_t places() const { return one_row ? kernel : kernel * kernel; }  // of a window
  int64_t group_in() const { return in / groups; }
  int64_t weights() const { return out * group_in() * places(); }
};

// samples x places x channels.
struct ChannelRows {
  int64_t samples = 0;
  int64_t places = 0;
  int64_t channels = 0;

  int64_t size() const { return samples * places * channels; }
};

struct LinearSize {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
};

struct HeadsSize {
  int64_t samples = 0;
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t head_features = 0;
  bool causal = true;
  bool fused = false;  // computed by the library, on activations; otherwise by ours, on floats
};

// The kinds of operations. Parameters are numbered as in the layout. An array whose name ends in
// `gradient` is the gradient of the array whose name precedes that ending.
namespace op {

// Turns the host's images, floats in PyTorch's order, into activations with channels last.
struct TakeImages {
  MatrixRun shape;  // samples x channels x places
  ArrayId out;
};
// Embeds the program's tokens; `positions` may be kNone.
struct Embed {
  int weight, positions;
  ArrayId out;
};
struct AddPositions {
  ArrayId in;
  int weight;
  ArrayId out;
};
// out = norm(sum). sum = in + added where `added` is not kNone; otherwise sum is `in`. Without a
// bias it is an RMS norm.
struct Norm {
  ArrayId in, added, sum;
  int weight, bias;
  double epsilon;
  int64_t rows, columns;
  ArrayId mean, deviation, out;
};
// out = function(in weightᵀ + bias). `aux`, where there is one, receives the function's input.
struct Linear {
  LinearSize size;
  ArrayId in;
  int weight, bias;
  Function function;
  ArrayId aux, out;
};
// Writes a convolution's weight with channels last, as an activation.
struct OrderWeight {
  int weight;
  MatrixRun shape;  // out x in x kernel kernel
  ArrayId out;
};
struct Convolve {
  Window window;
  ArrayId in, weight;  // weight is kNone where the parameter's own order serves
  int parameter, bias;
  bool relu;
  ArrayId out;
};
// `plain`: the output and its gradient are in PyTorch's order, for the flatten that follows.
struct Pool {
  Window window;
  ArrayId in, places, out;
  bool plain;
};
struct MeanPool {
  int64_t samples, channels;
  model::PoolAxis rows, columns;
  ArrayId in, out;
};
// Training measures the batch; evaluation takes the running moments, which are parameters. With
// `relu`, negative results become 0.
struct BatchNorm {
  ChannelRows shape;
  double epsilon;
  ArrayId in;
  int weight, bias, running_mean, running_variance;
  bool relu;
  ArrayId mean, deviation, variance, out;  // by channel, but `out`
};
struct Apply {
  Function function;
  ArrayId in;
  int64_t size;
  ArrayId out;
};
struct Sum {
  ArrayId a, b;
  int64_t size;
  ArrayId out;
};
// Serves both forward and backward. In evaluation nothing is dropped.
struct Drop {
  double p;
  uint64_t seed;
  MatrixRun shape;  // samples x channels x places, channels last
  ArrayId in, out;
};
struct Transpose {
  MatrixRun shape;  // of `in`
  ArrayId in, out;
};
struct Softmax {
  int64_t rows, columns;
  ArrayId in, out;
};
// Turns queries and keys by the angles of their tokens, or back. `tokens` x half of a head's
// features have an angle each.
struct Rotate {
  HeadsSize size;
  bool backwards;
  ArrayId in, out;
};
struct Attend {
  HeadsSize size;
  ArrayId in, log_sums, out;
};
// Converts between activations and floats.
struct Convert {
  bool to_float;
  int64_t size;
  ArrayId in, out;
};
// Computes the loss of the logits. In training also writes `gradient`, which may be the logits'
// array. A loss other than cross-entropy has one row a sample, of as many `classes` as outputs.
struct TakeLoss {
  int64_t samples, rows_per_sample, classes, stride;
  ArrayId logits, gradient;
  Loss loss;
};

// in_gradient = out_gradient times the derivative. `saved` is the function's output
// where SavesOutput(function), else its input.
struct ApplyGradient {
  Function function;
  ArrayId saved, out_gradient;
  int64_t size;
  ArrayId in_gradient;
};
// Sums over rows. With `relu_out`, first does the ReLU's backward half, in place. Each column has
// `places` neighbouring values in a row: 1, except for images in PyTorch's order, which follow a
// ReLU.
struct BiasGradient {
  ArrayId relu_out, out_gradient;
  int64_t rows, columns;
  int bias;
  int64_t places = 1;
};
// Also gives the bias's gradient, where `bias` is not kNone. If size.out exceeds the weight's rows,
// `padded` receives all rows before the weight's are copied.
struct LinearWeightGradient {
  LinearSize size;
  ArrayId in, out_gradient;
  int weight, bias;
  ArrayId padded;
};
// Where a GELU gave the layer's input, `gelu` may be the GELU's input, and in_gradient its
// gradient.
struct LinearInputGradient {
  LinearSize size;
  ArrayId out_gradient;
  int weight;
  ArrayId gelu, in_gradient;
};
// `ordered` receives the gradient with channels last; kNone where the parameter's own order serves.
struct ConvolutionWeightGradient {
  Window window;
  ArrayId in, out_gradient, ordered;
  int parameter;
};
struct ConvolutionInputGradient {
  Window window;
  ArrayId out_gradient, weight;
  int parameter;
  ArrayId in_gradient;
};
// `relu_out` is the pooling's output if the pooling does the backward half of the ReLU before it.
struct PoolGradient {
  Window window;
  ArrayId out_gradient, places, relu_out, in_gradient;
  bool plain;
};
struct MeanPoolGradient {
  int64_t samples, channels;
  model::PoolAxis rows, columns;
  ArrayId out_gradient, in_gradient;
};
// `relu_out` is BatchNorm's `out` where it has a ReLU. `in_gradient` may be kNone.
struct BatchNormGradient {
  ChannelRows shape;
  ArrayId in, relu_out, out_gradient;
  int weight, bias;
  ArrayId mean, deviation, in_gradient;
};
// Passes a batch's measurements on as the gradients of the running moments.
struct PassStatistics {
  ArrayId mean, variance;
  int running_mean, running_variance;
  int64_t channels, rows_per_sample;  // of the loss
};
// `in` is Norm's sum. in_gradient includes `shortcut`, where there is one.
struct NormGradient {
  ArrayId in, out_gradient, shortcut;
  int weight, bias;
  int64_t rows, columns;
  ArrayId mean, deviation, in_gradient;
};
struct SoftmaxGradient {
  int64_t rows, columns;
  ArrayId out, out_gradient, in_gradient;
};
struct AttendGradient {
  HeadsSize size;
  ArrayId in, log_sums, out, out_gradient, in_gradient;
};
struct PositionsGradient {
  ArrayId out_gradient;
  int64_t samples, size;  // of a sample
  int weight;
};
struct ZeroGradient {
  int weight;
};
// Adds to the gradient's contents.
struct EmbeddingGradient {
  ArrayId out_gradient;
  int weight;
};

}  // namespace op

using OperationKind =
    std::variant<op::TakeImages, op::Embed, op::AddPositions, op::Norm, op::Linear, op::OrderWeight,
                 op::Convolve, op::Pool, op::MeanPool, op::BatchNorm, op::Apply, op::Sum, op::Drop,
                 op::Transpose, op::Softmax, op::Rotate, op::Attend, op::Convert, op::TakeLoss,
                 op::ApplyGradient, op::BiasGradient, op::LinearWeightGradient,
                 op::LinearInputGradient, op::ConvolutionWeightGradient,
                 op::ConvolutionInputGradient, op::PoolGradient, op::MeanPoolGradient,
                 op::BatchNormGradient, op::PassStatistics, op::NormGradient, op::SoftmaxGradient,
                 op::AttendGradient, op::PositionsGradient, op::ZeroGradient,
                 op::EmbeddingGradient>;

struct Operation {
  OperationKind kind;
  std::vector<int> completes;  // parameters whose gradients are complete after it, in layout order
  ArrayId scratch = kNone;     // bytes that only this operation uses
};

struct LayerProgram {
  Precision precision = Precision::kFloat32;
  bool deterministic = true;  // NetworkOptions'
  int collective_blocks = 0;  // likewise
  int batch_size = 0;
  ParameterLayout layout;
  std::vector<ProgramArray> arrays;
  // Forward; then one TakeLoss; then backward, where anything has a gradient.
  std::vector<Operation> operations;
  int loss = 0;  // index of the TakeLoss

  // The host's inputs. Either images or tokens are set.
  ArrayId images = kNone;  // floats
  ArrayId tokens = kNone;
  // The loss takes labels or targets, of which the other is kNone. A norm takes neither, but the
  // labels of a data set on the device have their place.
  ArrayId labels = kNone;
  ArrayId targets = kNone;  // floats
  ArrayId samples = kNone;
  int64_t tokens_per_sample = 0;
  int64_t vocabulary = 0;  // of the embedding

  // Floats, all zero, that the weights need beyond the layout, for rows that pad a tied output
  // layer.
  int64_t values_padding = 0;

  const op::TakeLoss& take_loss() const { return std::get<op::TakeLoss>(operations[loss].kind); }
};

struct LayerProgramOptions {
  NetworkOptions network;
  // Whether the library has an attention of its own for bf16.
  bool fused_attention = true;
  // Bytes that an operation uses while it runs. Zero for all if the function is empty.
  std::function<int64_t(const LayerProgram&, const OperationKind&)> scratch_bytes;
};

// Fuses into one operation each:
// - a convolution or a batch norm with the ReLU behind it, or a linear layer with the ReLU or GELU
//   behind it;
// - an add with the norm behind it; an embedding with its positions;
// - a pooling with the backward half of the ReLU before it;
// - the product that gives the gradient of a GELU's output with the gradient of the GELU;
// - the loss with its gradient.
// In bf16 a tied output layer is padded to whole tiles. Equal layers and options give equal
// programs. CheckPlannable must have accepted the layers.
LayerProgram PlanLayers(absl::Span<const model::CheckedLayer> layers,
                        const LayerProgramOptions& options);

// Errors: Unimplemented names the first layer, or the setting of the loss, that only CPUs compute.
absl::Status CheckPlannable(absl::Span<const model::CheckedLayer> layers, const Loss& loss);

int64_t BytesOf(Stored stored, Precision precision);

// Where the arrays lie. Arrays that are never needed together share memory. The host's inputs have
// a place of their own (BatchBlock) and take none here.
ArenaPlan PlanArena(const LayerProgram& program);

// One line an operation, with the parameters whose gradients the operation completes, as "linear
// weight bias gradient h.0.mlp.c_fc.bias h.0.mlp.c_fc.weight". For tests and for people.
std::string Describe(const LayerProgram& program);

// "linear bias relu": what the operation is, without its parameters.
std::string Describe(const OperationKind& kind);

}  // namespace dp::engine::cuda
