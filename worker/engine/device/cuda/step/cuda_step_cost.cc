#include "worker/engine/device/cuda/step/cuda_step_cost.h"

#include <algorithm>

#include "absl/strings/string_view.h"
#include "base/overloaded.h"
#include "worker/engine/device/cuda/kernels/cuda_column_chunks.h"
#include "worker/engine/device/cuda/losses/cuda_narrow_rows.h"

namespace dp::engine::cuda {
namespace {

constexpr int64_t kFloatBytes = 4;
constexpr int64_t kIndexBytes = 4;  // of a token or a label, as operations take them
constexpr int64_t kPixelBytes = 1;  // of a data set on the device; of its labels, too
constexpr int64_t kTokenBytes = 2;

constexpr int kAdamWStateFloats = 2;

// A sort of 16-bit keys: a histogram and two passes.
constexpr int kSortLaunches = 3;

int64_t Flops(const LinearSize& size) { return 2 * size.rows * size.in * size.out; }

// How many windows slide along an axis of `places`.
int64_t Slides(const Window& w, int64_t places) {
  return (places + 2 * w.padding - (w.kernel - 1) * w.dilation - 1) / w.stride + 1;
}
int64_t OutRows(const Window& w) { return w.one_row ? 1 : Slides(w, w.rows); }
int64_t OutColumns(const Window& w) { return Slides(w, w.columns); }
int64_t InSize(const Window& w) { return w.samples * w.rows * w.columns * w.in; }
int64_t OutSize(const Window& w) { return w.samples * OutRows(w) * OutColumns(w) * w.out; }
int64_t Flops(const Window& w) { return 2 * OutSize(w) * w.group_in() * w.places(); }

int64_t SizeOf(const MatrixRun& run) { return run.count * run.rows * run.columns; }

int64_t Features(const HeadsSize& size) {
  return size.samples * size.tokens * size.heads * size.head_features;
}
int64_t Scores(const HeadsSize& size) {
  return size.samples * size.heads * size.tokens * size.tokens;
}
// Twice the scores that are not masked.
int64_t SeenScores(const HeadsSize& size) { return size.causal ? Scores(size) : 2 * Scores(size); }

// The cost of each kind, in a program's precision.
class Costs {
 public:
  explicit Costs(const LayerProgram& program)
      : program_(program), activation_(BytesOf(Stored::kActivation, program.precision)) {}

  // The cost of arrays of `activations` elements together, and of other bytes.
  OperationCost Of(int64_t activations, int64_t other_bytes = 0, int64_t flops = 0,
                   int launches = 1) const {
    return {activations * activation_ + other_bytes, flops, launches};
  }

  OperationCost operator()(const op::TakeImages& o) const {
    return Of(SizeOf(o.shape), SizeOf(o.shape) * kFloatBytes);
  }
  OperationCost operator()(const op::Embed& o) const {
    const int64_t rows = program_.arrays[program_.tokens].size;
    return Of(2 * program_.arrays[o.out].size, rows * kFloatBytes);
  }
  OperationCost operator()(const op::AddPositions& o) const {
    return Of(2 * program_.arrays[o.out].size);
  }
  OperationCost operator()(const op::Norm& o) const {
    const int arrays = o.added == kNone ? 2 : 4;
    return Of(arrays * o.rows * o.columns, 2 * o.rows * kFloatBytes);
  }
  OperationCost operator()(const op::Linear& o) const {
    const int outs = o.aux == kNone ? 1 : 2;
    const LinearSize& size = o.size;
    const OperationCost fused =
        Of(size.rows * size.in + size.in * size.out + outs * size.rows * size.out, 0, Flops(size));
    if (o.function == Function::kNone) return fused;
    // The function's kernel reads what the product wrote. A GELU's input is kept anyway.
    return Apart(fused, (o.aux == kNone ? 2 : 1) * size.rows * size.out);
  }
  OperationCost operator()(const op::OrderWeight& o) const {
    return Of(SizeOf(o.shape), SizeOf(o.shape) * kFloatBytes);
  }
  OperationCost operator()(const op::Convolve& o) const { return OfConvolution(o.window); }
  OperationCost operator()(const op::Pool& o) const {
    const int64_t outs = program_.arrays[o.out].size;
    return Of(InSize(o.window) + outs, outs);
  }
  OperationCost operator()(const op::MeanPool& o) const {
    return Of(program_.arrays[o.in].size + program_.arrays[o.out].size);
  }
  // Training reads the input once for its moments, and once more to norm it.
  OperationCost operator()(const op::BatchNorm& o) const { return Of(3 * o.shape.size(), 0, 0, 3); }
  OperationCost operator()(const op::Apply& o) const { return Of(2 * o.size); }
  OperationCost operator()(const op::Sum& o) const { return Of(3 * o.size); }
  OperationCost operator()(const op::Drop& o) const { return Of(2 * SizeOf(o.shape)); }
  OperationCost operator()(const op::Softmax& o) const { return Of(2 * o.rows * o.columns); }
  OperationCost operator()(const op::SoftmaxGradient& o) const {
    return Of(3 * o.rows * o.columns);
  }
  OperationCost operator()(const op::Rotate& o) const { return Of(6 * Features(o.size)); }
  OperationCost operator()(const op::Transpose& o) const { return Of(2 * SizeOf(o.shape)); }
  OperationCost operator()(const op::Attend& o) const {
    const int64_t element = o.size.fused ? activation_ : kFloatBytes;
    return Of(0, 4 * Features(o.size) * element, 2 * SeenScores(o.size) * o.size.head_features);
  }
  OperationCost operator()(const op::Convert& o) const { return Of(o.size, o.size * kFloatBytes); }
  OperationCost operator()(const op::TakeLoss& o) const {
    const int64_t rows = o.samples * o.rows_per_sample;
    const int64_t size = rows * o.stride;
    const bool trains = o.gradient != kNone;
    const int64_t once = trains ? 2 * size : size;
    if (const auto* loss = std::get_if<CrossEntropyLoss>(&o.loss)) {
      const int launches = IsNarrow(o.stride, rows) ? 1 : 2;
      if (loss->label_smoothing == 0) return Of(once, 0, 0, launches);
      // Smoothing reads the logits before, and changes the gradient behind.
      return Of(once + (trains ? 3 * size : size), 0, 0, launches + (trains ? 3 : 2));
    }
    // A norm is known before its gradient, which takes a pass of its own.
    const bool norm = std::holds_alternative<NormLoss>(o.loss);
    return Of(norm && trains ? once + size : once, norm ? 0 : size * kFloatBytes, 0,
              norm && trains ? 3 : 2);
  }
  OperationCost operator()(const op::ApplyGradient& o) const { return Of(3 * o.size); }
  OperationCost operator()(const op::BiasGradient& o) const {
    const int arrays = o.relu_out == kNone ? 1 : 3;
    const bool at_once = o.places > 1 || ColumnChunks(o.rows, o.columns).count == 1;
    return Of(arrays * o.rows * o.columns * o.places, 0, 0, at_once ? 1 : 2);
  }
  OperationCost operator()(const op::LinearWeightGradient& o) const {
    const int64_t weights = o.size.in * o.size.out * kFloatBytes;
    const bool copied = o.padded != kNone;
    const OperationCost fused = Of(o.size.rows * (o.size.in + o.size.out),
                                   copied ? 3 * weights : weights, Flops(o.size), copied ? 2 : 1);
    return o.bias == kNone ? fused : Apart(fused, o.size.rows * o.size.out);
  }
  OperationCost operator()(const op::LinearInputGradient& o) const {
    const int ins = o.gelu == kNone ? 1 : 2;
    const LinearSize& size = o.size;
    const OperationCost fused =
        Of(size.rows * size.out + size.in * size.out + ins * size.rows * size.in, 0, Flops(size));
    return o.gelu == kNone ? fused : Apart(fused, 2 * size.rows * size.in);
  }
  OperationCost operator()(const op::ConvolutionWeightGradient& o) const {
    OperationCost cost = OfConvolution(o.window);
    if (o.ordered == kNone) return cost;
    cost.bytes += o.window.weights() * (activation_ + kFloatBytes);
    ++cost.launches;
    return cost;
  }
  OperationCost operator()(const op::ConvolutionInputGradient& o) const {
    return OfConvolution(o.window);
  }
  OperationCost operator()(const op::PoolGradient& o) const {
    const int64_t outs = program_.arrays[o.out_gradient].size;
    const int arrays = o.relu_out == kNone ? 1 : 2;
    return Of(InSize(o.window) + arrays * outs, outs);
  }
  OperationCost operator()(const op::MeanPoolGradient& o) const {
    return Of(program_.arrays[o.out_gradient].size + program_.arrays[o.in_gradient].size);
  }
  // Two passes read the input, the output's gradient, and the output where a ReLU needs it.
  OperationCost operator()(const op::BatchNormGradient& o) const {
    const bool passes_on = o.in_gradient != kNone;
    const int read = o.relu_out == kNone ? 2 : 3;
    return Of((passes_on ? 2 * read + 1 : read) * o.shape.size(), 0, 0, passes_on ? 3 : 2);
  }
  OperationCost operator()(const op::PassStatistics& o) const {
    return Of(0, 4 * o.channels * kFloatBytes);
  }
  OperationCost operator()(const op::NormGradient& o) const {
    const int arrays = o.shortcut == kNone ? 3 : 4;
    return Of(arrays * o.rows * o.columns, 2 * o.rows * kFloatBytes, 0, 2);
  }
  // Fused attention writes and rereads the lower half of the scores' gradient, in bf16.
  OperationCost operator()(const op::AttendGradient& o) const {
    const int64_t element = o.size.fused ? activation_ : kFloatBytes;
    const int64_t scores = o.size.fused ? Scores(o.size) * activation_ : 0;
    return Of(0, 8 * Features(o.size) * element + scores,
              5 * SeenScores(o.size) * o.size.head_features, o.size.fused ? 1 : 3);
  }
  OperationCost operator()(const op::PositionsGradient& o) const {
    return Of(o.samples * o.size, o.size * kFloatBytes);
  }
  OperationCost operator()(const op::ZeroGradient& o) const {
    return Of(0, program_.layout.parameters[o.weight].size * kFloatBytes);
  }
  // Reads and writes the gradient's row of each token at most once.
  OperationCost operator()(const op::EmbeddingGradient& o) const {
    const int64_t size = program_.arrays[o.out_gradient].size;
    const int64_t touched = std::min(size, program_.layout.parameters[o.weight].size);
    return Of(size, 2 * touched * kFloatBytes, 0, 3 + kSortLaunches);
  }

 private:
  OperationCost Apart(OperationCost fused, int64_t activations) const {
    fused.apart_bytes = activations * activation_;
    return fused;
  }
  OperationCost OfConvolution(const Window& window) const {
    return Of(InSize(window) + window.weights() + OutSize(window), 0, Flops(window));
  }

  const LayerProgram& program_;
  const int64_t activation_;
};

bool IsAttention(const OperationKind& kind) {
  return std::holds_alternative<op::Attend>(kind) ||
         std::holds_alternative<op::AttendGradient>(kind);
}

CostRow& RowOf(absl::string_view name, std::vector<CostRow>& rows) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const CostRow& row) { return row.name == name; });
  if (found != rows.end()) return *found;
  rows.push_back({.name = std::string(name)});
  return rows.back();
}

void AddTo(CostRow& row, const OperationCost& cost, const CardRates& rates, double flops_rate) {
  ++row.count;
  row.cost.bytes += cost.bytes;
  row.cost.flops += cost.flops;
  row.cost.launches += cost.launches;
  row.cost.apart_bytes += cost.apart_bytes;
  row.seconds += std::max(static_cast<double>(cost.bytes) / rates.bytes,
                          static_cast<double>(cost.flops) / flops_rate);
  if (!rates.fused) row.seconds += static_cast<double>(cost.apart_bytes) / rates.bytes;
}

}  // namespace

OperationCost CostOf(const LayerProgram& program, const OperationKind& kind) {
  return std::visit(Costs(program), kind);
}

OperationCost GatherCost(const LayerProgram& program) {
  if (program.tokens != kNone) {
    // Each token is read as an input and as a label, the second time from the cache.
    const int64_t tokens = program.arrays[program.tokens].size;
    return {.bytes = tokens * (kTokenBytes + 2 * kIndexBytes), .launches = 1};
  }
  const int64_t labels = program.batch_size * (kPixelBytes + kIndexBytes);
  const int64_t pixels = program.arrays[program.images].size;
  return {.bytes = pixels * (kPixelBytes + kFloatBytes) + labels, .launches = 1};
}

OperationCost OptimizerCost(int64_t values, int state_floats, bool rounded) {
  // The gradient is read; the value and the state are read and written. AdamW's factors take a
  // kernel of one thread.
  const int64_t bytes = kFloatBytes * (1 + 2 + 2 * state_floats) + (rounded ? 2 : 0);
  return {.bytes = values * bytes, .launches = state_floats == kAdamWStateFloats ? 2 : 1};
}

std::vector<CostRow> StepCosts(const LayerProgram& program, const CardRates& rates,
                               int state_floats) {
  std::vector<CostRow> rows;
  AddTo(RowOf("gather", rows), GatherCost(program), rates, rates.flops);
  for (const Operation& operation : program.operations) {
    const double flops = IsAttention(operation.kind) ? rates.attention_flops : rates.flops;
    AddTo(RowOf(Describe(operation.kind), rows), CostOf(program, operation.kind), rates, flops);
  }
  const bool rounded = program.precision == Precision::kBfloat16;
  AddTo(RowOf("optimizer", rows), OptimizerCost(program.layout.size, state_floats, rounded), rates,
        rates.flops);
  return rows;
}

}  // namespace dp::engine::cuda
