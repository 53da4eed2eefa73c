#include "worker/engine/device/cuda/libraries/cuda_cudnn_graph.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "worker/engine/device/cuda/libraries/cuda_attention_graph.h"
#include "worker/engine/device/cuda/libraries/cuda_convolution_graph.h"
#include "worker/engine/device/cuda/testing/cuda_convolution_terms.h"
#include "worker/engine/device/cuda/testing/cuda_cudnn_on_host.h"
#include "worker/engine/device/cuda/testing/cuda_testing.h"

// Computes on the host what our graphs describe to cuDNN. cuda_cudnn_engines_test.cc shows that
// cuDNN accepts them, testing/cuda_cudnn_conformance.cc what its kernels compute.

namespace dp::engine::cuda {
namespace {

using Floats = std::vector<float>;

constexpr double kNear = 1e-5;

void ComputeFinished(CudnnGraph graph, const std::vector<float*>& stored) {
  const absl::Status finished = graph.Finish({});
  ASSERT_TRUE(finished.ok()) << finished;
  on_host::Compute(graph, stored);
}

// The arrays of an attention, heads packed, and its CPU twin.
struct PackedAttention {
  explicit PackedAttention(const AttentionShape& of)
      : shape(of),
        size(of.samples * of.tokens * of.features()),
        in(RandomValues<float>(3 * size, 1)),
        out_gradient(RandomValues<float>(size, 2)),
        twin(model::CausalAttention{static_cast<int>(of.heads)}, {of.tokens, 3 * of.features()},
             {of.tokens, of.features()}, static_cast<int>(of.samples)) {}

  float* head(Floats& packed, int64_t which) const {
    return packed.data() + which * shape.features();
  }
  void Forward() {
    ComputeFinished(MakeForwardGraph(shape),
                    {head(in, 0), head(in, 1), head(in, 2), out.data(), log_sums.data()});
  }
  void Backward(bool atomic) {
    Floats row_products(shape.rows()), queries_sums(size);
    std::vector<float*> stored = {head(in, 0),          head(in, 1),          head(in, 2),
                                  out.data(),           log_sums.data(),      out_gradient.data(),
                                  head(in_gradient, 0), head(in_gradient, 1), head(in_gradient, 2),
                                  row_products.data()};
    if (atomic) stored.push_back(queries_sums.data());
    ComputeFinished(atomic ? MakeAtomicBackwardGraph(shape) : MakeBackwardGraph(shape), stored);
  }

  const AttentionShape shape;
  const int64_t size;
  Floats in, out_gradient;
  Floats out = Floats(size), in_gradient = Floats(3 * size), log_sums = Floats(shape.rows());
  CpuTwin twin;
};

TEST(CudnnGraphTest, AttentionIsTheCpusForwardAndBackward) {
  for (const AttentionShape& shape :
       {AttentionShape{2, 7, 3, 16}, AttentionShape{1, 1, 1, 8}, AttentionShape{3, 12, 2, 8}}) {
    PackedAttention attention(shape);
    attention.Forward();
    ExpectNear(attention.out, attention.twin.Forward(attention.in, {}), kNear);
    const Floats expected = attention.twin.Backward(attention.out_gradient);
    for (const bool atomic : {false, true}) {
      attention.Backward(atomic);
      ExpectNear(attention.in_gradient, expected, kNear);
      std::fill(attention.in_gradient.begin(), attention.in_gradient.end(), NAN);
    }
  }
}

// As in softmax, over the scores of a row up to its own token.
TEST(CudnnGraphTest, LogSumsAreThoseOfTheRowsExponentials) {
  PackedAttention attention({1, 3, 2, 8});
  attention.Forward();
  const int64_t row = 3 * attention.shape.features();
  for (int64_t token = 0; token < 3; ++token) {
    double sum = 0;
    for (int64_t other = 0; other <= token; ++other) {
      double score = 0;
      for (int64_t i = 8; i < 16; ++i) {  // of the second head
        score += attention.head(attention.in, 0)[token * row + i] *
                 attention.head(attention.in, 1)[other * row + i];
      }
      sum += std::exp(score / std::sqrt(8.0));
    }
    EXPECT_NEAR(attention.log_sums[3 + token], std::log(sum), kNear);
  }
}

// A convolution's arrays, channels last, and its products.
struct Convolution {
  explicit Convolution(const ConvolutionShape& of)
      : shape(of),
        in(RandomValues<float>(of.batch * of.height * of.width * of.in, 1)),
        weight(RandomValues<float>(of.out * of.places() * of.group_in(), 2)),
        bias(RandomValues<float>(of.out, 3)),
        out(RandomValues<float>(of.batch * of.out_height() * of.out_width() * of.out, 4)) {}

  std::vector<float*> addresses(ConvolutionPass pass) {
    if (pass == ConvolutionPass::kForward && shape.bias) {
      return {in.data(), weight.data(), bias.data(), out.data()};
    }
    return {in.data(), weight.data(), out.data()};
  }

  ConvolutionShape shape;
  Floats in, weight, bias, out;
};

ConvolutionShape Grouped(ConvolutionShape shape, int64_t groups, int64_t dilation) {
  shape.groups = groups;
  shape.dilation = dilation;
  return shape;
}

ConvolutionShape Sequence(ConvolutionShape shape) {
  shape.one_row = true;
  return shape;
}

std::vector<ConvolutionShape> ConvolutionShapes() {
  return {{2, 6, 5, 1, 4, 3, 1, 1, ElementType::kFloat32, true, true},
          {2, 5, 4, 3, 2, 3, 1, 1, ElementType::kFloat32, true, false},
          {1, 9, 7, 2, 3, 5, 2, 2, ElementType::kFloat32, false, true},
          {1, 4, 4, 2, 3, 1, 1, 0, ElementType::kFloat32, false, false},
          Grouped({2, 6, 5, 6, 4, 3, 1, 1, ElementType::kFloat32, true, true}, 2, 1),
          Grouped({1, 9, 8, 3, 3, 3, 2, 2, ElementType::kFloat32, true, false}, 3, 2),
          Sequence({2, 1, 9, 4, 6, 3, 2, 2, ElementType::kFloat32, true, true})};
}

TEST(CudnnGraphTest, ConvolutionsForwardAreTheDefinition) {
  for (const ConvolutionShape& shape : ConvolutionShapes()) {
    Convolution conv(shape);
    Floats expected(conv.out.size());
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = conv.bias[i % shape.out];
    if (!shape.bias) std::fill(expected.begin(), expected.end(), 0.0f);
    ForEachConvolutionTerm(shape, [&](int64_t in, int64_t weight, int64_t out) {
      expected[out] += conv.in[in] * conv.weight[weight];
    });
    for (float& value : expected) value = shape.relu ? std::max(value, 0.0f) : value;
    ComputeFinished(MakeGraph(shape, ConvolutionPass::kForward),
                    conv.addresses(ConvolutionPass::kForward));
    ExpectNear(conv.out, expected, kNear);
  }
}

TEST(CudnnGraphTest, ConvolutionsBackwardAreTheDefinition) {
  for (const ConvolutionShape& shape : ConvolutionShapes()) {
    Convolution conv(shape);
    Floats in_gradient(conv.in.size()), weight_gradient(conv.weight.size());
    ForEachConvolutionTerm(shape, [&](int64_t in, int64_t weight, int64_t out) {
      in_gradient[in] += conv.out[out] * conv.weight[weight];
      weight_gradient[weight] += conv.out[out] * conv.in[in];
    });
    Convolution to_data = conv, to_filter = conv;
    ComputeFinished(MakeGraph(shape, ConvolutionPass::kBackwardData),
                    to_data.addresses(ConvolutionPass::kBackwardData));
    ExpectNear(to_data.in, in_gradient, kNear);
    ComputeFinished(MakeGraph(shape, ConvolutionPass::kBackwardFilter),
                    to_filter.addresses(ConvolutionPass::kBackwardFilter));
    ExpectNear(to_filter.weight, weight_gradient, kNear);
  }
}

}  // namespace
}  // namespace dp::engine::cuda
