#include "worker/engine/device/cuda/libraries/cuda_attention_graph.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dp::engine::cuda {
namespace {

using Tensor = CudnnGraph::Tensor;

TensorLayout Transposed(TensorLayout layout) {
  std::swap(layout.sizes[2], layout.sizes[3]);
  std::swap(layout.strides[2], layout.strides[3]);
  return layout;
}

float Scale(const AttentionShape& shape) {
  return 1 / std::sqrt(static_cast<float>(shape.head_features));
}

// The value of a score that does not count. Before 9.10 cuDNN's softmax needs a finite number.
float NoScore() {
  constexpr size_t kTakesInfinity = 91000;
  using Limits = std::numeric_limits<float>;
  return cudnnGetVersion() < kTakesInfinity ? Limits::lowest() : -Limits::infinity();
}

// Keeps the scores of tokens up to a row's own; scores of later tokens become NoScore().
Tensor AddCausalMask(const TensorLayout& layout, Tensor scores, CudnnGraph* graph) {
  const Tensor column = graph->Virtual(layout, CUDNN_DATA_INT32);
  graph->Index(3, scores, column);
  const Tensor row = graph->Virtual(layout, CUDNN_DATA_INT32);
  graph->Index(2, scores, row);
  const Tensor known = graph->Virtual(layout, CUDNN_DATA_BOOLEAN);
  graph->Pointwise(CUDNN_POINTWISE_CMP_GE, row, column, known);
  const Tensor masked = graph->Virtual(layout, CUDNN_DATA_FLOAT);
  graph->Select(known, scores, graph->Scalar(NoScore()), masked);
  return masked;
}

// Adds the operations of one pass to its graph, step by step.
class Builder {
 public:
  Builder(const AttentionShape& shape, CudnnGraph* graph)
      : layouts_(LayoutsOf(shape)), graph_(*graph) {}

  const AttentionLayouts& layouts() const { return layouts_; }

  Tensor Values(const TensorLayout& layout) { return graph_.Stored(layout, CUDNN_DATA_BFLOAT16); }
  Tensor StoredRow() { return graph_.Stored(layouts_.row, CUDNN_DATA_FLOAT); }

  Tensor Scores(cudnnPointwiseMode_t mode, Tensor x) {
    const Tensor to = graph_.Virtual(layouts_.scores, CUDNN_DATA_FLOAT);
    graph_.Pointwise(mode, x, to);
    return to;
  }
  Tensor Scores(cudnnPointwiseMode_t mode, Tensor x, Tensor b) {
    const Tensor to = graph_.Virtual(layouts_.scores, CUDNN_DATA_FLOAT);
    graph_.Pointwise(mode, x, b, to);
    return to;
  }
  Tensor Product(Tensor a, Tensor b) {
    const Tensor to = graph_.Virtual(layouts_.scores, CUDNN_DATA_FLOAT);
    graph_.Matmul(a, b, to);
    return to;
  }
  Tensor Row(cudnnReduceTensorOp_t op, Tensor x) {
    const Tensor to = graph_.Virtual(layouts_.row, CUDNN_DATA_FLOAT);
    graph_.Reduce(op, x, to);
    return to;
  }
  // Scores as a left factor, with tokens x tokens transposed.
  Tensor TransposedFactor(Tensor scores) {
    const Tensor to = graph_.Virtual(layouts_.scores_transposed, CUDNN_DATA_BFLOAT16);
    graph_.Reshape(scores, to);
    return to;
  }

 private:
  const AttentionLayouts layouts_;
  CudnnGraph& graph_;
};

absl::string_view Name(AttentionPass pass) {
  switch (pass) {
    case AttentionPass::kForward:
      return "forward";
    case AttentionPass::kBackward:
      return "backward";
    case AttentionPass::kAtomicBackward:
      return "backward atomic";
  }
  return "";
}

}  // namespace

std::string Describe(const AttentionShape& shape, AttentionPass pass) {
  return absl::StrCat("attention ", Name(pass), " b=", shape.samples, " t=", shape.tokens,
                      " h=", shape.heads, " d=", shape.head_features);
}

std::string WhyNot(const AttentionShape& shape) {
  if (shape.samples < 1 || shape.tokens < 1 || shape.heads < 1) return "a size below 1";
  if (shape.head_features % 8 != 0 || shape.head_features < 8 || shape.head_features > 128) {
    return absl::StrCat("heads are ", shape.head_features,
                        " wide, but cuDNN takes multiples of 8 up to 128");
  }
  return "";
}

AttentionLayouts LayoutsOf(const AttentionShape& shape) {
  const int64_t features = shape.features();
  const int64_t tokens = shape.tokens;
  const auto in_rows = [&](int64_t row) {
    return TensorLayout{.sizes = {shape.samples, shape.heads, tokens, shape.head_features},
                        .strides = {tokens * row, shape.head_features, row, 1}};
  };
  const TensorLayout packed = in_rows(3 * features);
  const TensorLayout scores = Dense({shape.samples, shape.heads, tokens, tokens});
  TensorLayout scores_transposed = scores;
  std::swap(scores_transposed.strides[2], scores_transposed.strides[3]);
  return {.packed = packed,
          .packed_transposed = Transposed(packed),
          .out = in_rows(features),
          .head = Dense({shape.samples, shape.heads, tokens, shape.head_features}),
          .row = Dense({shape.samples, shape.heads, tokens, 1}),
          .scores = scores,
          .scores_transposed = scores_transposed};
}

CudnnGraph MakeForwardGraph(const AttentionShape& shape) {
  CudnnGraph graph;
  Builder add(shape, &graph);
  const Tensor queries = add.Values(add.layouts().packed);
  const Tensor keys = add.Values(add.layouts().packed_transposed);
  const Tensor values = add.Values(add.layouts().packed);
  const Tensor out = add.Values(add.layouts().out);
  const Tensor log_sums = add.StoredRow();

  const Tensor products = add.Product(queries, keys);
  const Tensor scaled = add.Scores(CUDNN_POINTWISE_MUL, products, graph.Scalar(Scale(shape)));
  const Tensor scores = AddCausalMask(add.layouts().scores, scaled, &graph);
  const Tensor largest = add.Row(CUDNN_REDUCE_TENSOR_MAX, scores);
  const Tensor below = add.Scores(CUDNN_POINTWISE_SUB, scores, largest);
  const Tensor exponentials = add.Scores(CUDNN_POINTWISE_EXP, below);
  const Tensor sum = add.Row(CUDNN_REDUCE_TENSOR_ADD, exponentials);
  const Tensor log = graph.Virtual(add.layouts().row, CUDNN_DATA_FLOAT);
  graph.Pointwise(CUDNN_POINTWISE_LOG, sum, log);
  graph.Pointwise(CUDNN_POINTWISE_ADD, largest, log, log_sums);
  const Tensor probabilities = graph.Virtual(add.layouts().scores, CUDNN_DATA_BFLOAT16);
  graph.Pointwise(CUDNN_POINTWISE_DIV, exponentials, sum, probabilities);
  graph.Matmul(probabilities, values, out);
  return graph;
}

namespace {

CudnnGraph MakeEitherBackwardGraph(const AttentionShape& shape, bool atomic) {
  CudnnGraph graph;
  Builder add(shape, &graph);
  const Tensor queries = add.Values(add.layouts().packed);
  const Tensor keys = add.Values(add.layouts().packed_transposed);
  const Tensor values = add.Values(add.layouts().packed_transposed);
  const Tensor out = add.Values(add.layouts().out);
  const Tensor log_sums = add.StoredRow();
  const Tensor out_gradient = add.Values(add.layouts().out);
  const Tensor queries_gradient = add.Values(add.layouts().packed);
  const Tensor keys_gradient = add.Values(add.layouts().packed);
  const Tensor values_gradient = add.Values(add.layouts().packed);
  const Tensor row_products = add.StoredRow();
  // In the deterministic form the product is the gradient itself.
  const Tensor queries_sums = atomic ? graph.StoredSums(add.layouts().head) : queries_gradient;

  // For each row, the mean of its slopes weighed by probability, for softmax's gradient.
  const Tensor elements = graph.Virtual(add.layouts().out, CUDNN_DATA_FLOAT);
  graph.Pointwise(CUDNN_POINTWISE_MUL, out_gradient, out, elements);
  const Tensor sums = add.Row(CUDNN_REDUCE_TENSOR_ADD, elements);
  graph.Pointwise(CUDNN_POINTWISE_MUL, sums, graph.Scalar(1), row_products);

  // Computes the probabilities again, and the gradient of the values.
  const Tensor scale = graph.Scalar(Scale(shape));
  const Tensor products = add.Product(queries, keys);
  const Tensor scaled = add.Scores(CUDNN_POINTWISE_MUL, products, scale);
  const Tensor logs = add.Scores(CUDNN_POINTWISE_SUB, scaled, log_sums);
  const Tensor masked = AddCausalMask(add.layouts().scores, logs, &graph);
  const Tensor probabilities = add.Scores(CUDNN_POINTWISE_EXP, masked);
  graph.Matmul(add.TransposedFactor(probabilities), out_gradient, values_gradient);

  // The gradient of the scores, and from it those of keys and queries.
  const Tensor slopes = add.Product(out_gradient, values);
  const Tensor above = add.Scores(CUDNN_POINTWISE_SUB, slopes, row_products);
  const Tensor weighed = add.Scores(CUDNN_POINTWISE_MUL, above, probabilities);
  const Tensor scores_gradient = add.Scores(CUDNN_POINTWISE_MUL, weighed, scale);
  graph.Matmul(add.TransposedFactor(scores_gradient), queries, keys_gradient);
  const Tensor keys_again = graph.Virtual(add.layouts().packed, CUDNN_DATA_FLOAT);
  graph.Reshape(keys, keys_again);
  graph.Matmul(scores_gradient, keys_again, queries_sums);
  if (atomic) graph.Pointwise(CUDNN_POINTWISE_IDENTITY, queries_sums, queries_gradient);
  return graph;
}

}  // namespace

CudnnGraph MakeBackwardGraph(const AttentionShape& shape) {
  return MakeEitherBackwardGraph(shape, /*atomic=*/false);
}

CudnnGraph MakeAtomicBackwardGraph(const AttentionShape& shape) {
  return MakeEitherBackwardGraph(shape, /*atomic=*/true);
}

}  // namespace dp::engine::cuda
