#include "worker/engine/device/cuda/attention/cuda_attention.h"
#include "worker/engine/device/cuda/attention/cuda_rotary.h"
#include "worker/engine/device/cuda/kernels/cuda_column_sums.h"
#include "worker/engine/device/cuda/kernels/cuda_embedding.h"
#include "worker/engine/device/cuda/kernels/cuda_layer_norm.h"
#include "worker/engine/device/cuda/kernels/cuda_softmax.h"
#include "worker/engine/device/cuda/testing/cuda_testing.h"
#include "worker/engine/nn/rotary_angles.h"

namespace dp::engine::cuda {
namespace {

template <typename T>
using CudaTextTest = CudaPrecisionTest<T>;
TYPED_TEST_SUITE(CudaTextTest, Precisions);

// Tokens. A few come often, so that some runs fill several chunks.
std::vector<float> SomeTokens(int64_t rows, int vocabulary) {
  std::vector<float> tokens = RandomValues<float>(rows, 9);
  for (float& token : tokens) {
    token = token < 0 ? 2.0f : static_cast<float>(static_cast<int>(token * vocabulary));
  }
  return tokens;
}

std::vector<int32_t> AsIntegers(const std::vector<float>& values) {
  return std::vector<int32_t>(values.begin(), values.end());
}

TYPED_TEST(CudaTextTest, EmbeddingIsTheCpus) {
  for (int64_t features : {5, 8, 64, 1032}) {
    const EmbeddingShape shape = {
        .samples = 4, .tokens_per_sample = 50, .features = features, .vocabulary = 31};
    const auto weight = RandomValues<TypeParam>(shape.vocabulary * features, 1);
    std::vector<float> weight_gradient = RandomValues<float>(shape.vocabulary * features, 2);
    const auto tokens = SomeTokens(shape.rows(), 31);
    auto out_gradient = RandomValues<TypeParam>(shape.rows() * features, 3);
    // The last sample is padding.
    std::fill(out_gradient.end() - 50 * features, out_gradient.end(), 0.0f);
    const auto device_weight = OnDevice<TypeParam>(weight);
    const auto device_gradient = OnDevice<float>(weight_gradient);
    const auto device_out_gradient = OnDevice<TypeParam>(out_gradient);
    const DeviceArray<int32_t> device_tokens(AsIntegers(tokens));
    DeviceArray<TypeParam> out(shape.rows() * features);
    const int64_t workspace_bytes = EmbeddingBackwardWorkspace(shape);
    DeviceArray<uint8_t> workspace(workspace_bytes);
    const StepInput* step = this->Step({.count = 3});

    const ParameterViews views = {.weight = weight.data(),
                                  .weight_gradient = weight_gradient.data()};
    CpuTwin twin(model::Embedding{.vocabulary = 31, .features = static_cast<int>(features)}, {50},
                 {50, features}, 4, {.parameters = views, .tied = true});
    const TypeParam* no_positions = nullptr;
    this->Finish(EmbeddingForward(this->stream(), device_tokens.data(), device_weight.data(),
                                  no_positions, shape, step, out.data()));
    EXPECT_EQ(out.ReadFloats(), twin.Forward(tokens, {.count = 3}));
    this->Finish(EmbeddingBackward(this->stream(), device_tokens.data(), device_out_gradient.data(),
                                   shape, step, {workspace.data(), workspace_bytes},
                                   device_gradient.data()));
    twin.Backward(out_gradient);
    ExpectNear(device_gradient, weight_gradient);
  }
}

TYPED_TEST(CudaTextTest, PositionsAreTheCpus) {
  for (int64_t features : {3, 16}) {
    const EmbeddingShape shape = {
        .samples = 5, .tokens_per_sample = 7, .features = features, .vocabulary = 4};
    const auto in = RandomValues<TypeParam>(shape.rows() * features, 1);
    const auto weight = RandomValues<TypeParam>(7 * features, 2);
    const auto out_gradient = RandomValues<TypeParam>(shape.rows() * features, 3);
    std::vector<float> weight_gradient(7 * features);
    const ParameterViews views = {.weight = weight.data(),
                                  .weight_gradient = weight_gradient.data()};
    CpuTwin twin(model::Positions(), {7, features}, {7, features}, 5, {.parameters = views});
    const auto device_in = OnDevice<TypeParam>(in);
    const auto device_weight = OnDevice<TypeParam>(weight);
    const auto device_out_gradient = OnDevice<TypeParam>(out_gradient);
    const Matrix by_sample = {5, 7 * features};
    DeviceArray<TypeParam> out(shape.rows() * features);
    DeviceArray<float> workspace(ColumnSumsWorkspace(by_sample)), sums(7 * features);
    this->Finish(PositionsForward(this->stream(), device_in.data(), device_weight.data(), shape,
                                  out.data()));
    ExpectNear(out, twin.Forward(in, {}));
    this->Finish(ColumnSums(this->stream(), device_out_gradient.data(), by_sample, workspace.data(),
                            sums.data()));
    twin.Backward(out_gradient);
    ExpectNear(sums, weight_gradient);
  }
}

TYPED_TEST(CudaTextTest, EmbeddingAddsPositions) {
  const EmbeddingShape shape = {
      .samples = 2, .tokens_per_sample = 3, .features = 8, .vocabulary = 4};
  const auto weight = RandomValues<TypeParam>(4 * 8, 1);
  const auto positions = RandomValues<TypeParam>(3 * 8, 2);
  const std::vector<int32_t> tokens = {3, 0, 1, 1, 2, 2};
  std::vector<float> expected;
  for (size_t row = 0; row < tokens.size(); ++row) {
    for (int i = 0; i < 8; ++i) {
      expected.push_back(weight[tokens[row] * 8 + i] + positions[row % 3 * 8 + i]);
    }
  }
  const auto device_weight = OnDevice<TypeParam>(weight);
  const auto device_positions = OnDevice<TypeParam>(positions);
  const DeviceArray<int32_t> device_tokens(tokens);
  DeviceArray<TypeParam> out(6 * 8);
  this->Finish(EmbeddingForward(this->stream(), device_tokens.data(), device_weight.data(),
                                device_positions.data(), shape, this->Step({.count = 2}),
                                out.data()));
  EXPECT_EQ(out.ReadFloats(), RoundedValues<TypeParam>(expected));
}

// The inputs and outputs of a layer norm, on the device.
template <typename T>
struct NormArrays {
  explicit NormArrays(Matrix matrix)
      : shape(matrix),
        mean(shape.rows),
        deviation(shape.rows),
        sum(shape.size()),
        out(shape.size()),
        in_gradient(shape.size()),
        weight_gradient(shape.columns),
        bias_gradient(shape.columns),
        workspace(LayerNormBackwardWorkspace(shape)) {}

  RowMoments moments() { return {mean.data(), deviation.data()}; }

  const Matrix shape;
  DeviceArray<float> mean, deviation;
  DeviceArray<T> sum, out, in_gradient;
  DeviceArray<float> weight_gradient, bias_gradient, workspace;
};

TYPED_TEST(CudaTextTest, AddAndLayerNormAreTheCpus) {
  for (const Matrix shape : {Matrix{3, 5}, Matrix{70, 256}, Matrix{1000, 768}, Matrix{40, 1000},
                             Matrix{20, 1024}, Matrix{9, 1600}, Matrix{9, 1601}}) {
    const auto a = RandomValues<TypeParam>(shape.size(), 1);
    const auto b = RandomValues<TypeParam>(shape.size(), 2);
    const auto out_gradient = RandomValues<TypeParam>(shape.size(), 3);
    const auto shortcut = RandomValues<TypeParam>(shape.size(), 4);
    const auto weight = RandomValues<float>(shape.columns, 5);
    const auto bias = RandomValues<float>(shape.columns, 6);
    std::vector<float> weight_gradient(shape.columns), bias_gradient(shape.columns);
    const ParameterViews views = {weight.data(), bias.data(), weight_gradient.data(),
                                  bias_gradient.data()};
    const int rows = static_cast<int>(shape.rows);
    CpuTwin twin(model::LayerNorm(), {shape.columns}, {shape.columns}, rows, {.parameters = views});

    std::vector<float> sum(shape.size());
    for (int64_t i = 0; i < shape.size(); ++i) sum[i] = a[i] + b[i];
    sum = RoundedValues<TypeParam>(sum);
    const auto device_a = OnDevice<TypeParam>(a);
    const auto device_b = OnDevice<TypeParam>(b);
    const auto device_weight = OnDevice<float>(weight);
    const auto device_bias = OnDevice<float>(bias);
    NormArrays<TypeParam> arrays(shape);
    this->Finish(AddLayerNormForward(this->stream(), device_a.data(), device_b.data(),
                                     {device_weight.data(), device_bias.data(), 1e-5f}, shape,
                                     arrays.moments(), arrays.sum.data(), arrays.out.data()));
    EXPECT_EQ(arrays.sum.ReadFloats(), sum);
    ExpectNear(arrays.out, twin.Forward(sum, {}));
    const std::vector<float> added = arrays.out.ReadFloats();
    this->Finish(LayerNormForward(this->stream(), arrays.sum.data(),
                                  {device_weight.data(), device_bias.data(), 1e-5f}, shape,
                                  arrays.moments(), arrays.out.data()));
    EXPECT_EQ(arrays.out.ReadFloats(), added);

    // in_gradient may be the shortcut.
    arrays.in_gradient.Write(OnDevice<TypeParam>(shortcut).Read());
    const auto device_out_gradient = OnDevice<TypeParam>(out_gradient);
    this->Finish(LayerNormBackward(
        this->stream(), arrays.sum.data(), device_out_gradient.data(), arrays.in_gradient.data(),
        device_weight.data(), arrays.moments(), shape, arrays.workspace.data(),
        {arrays.in_gradient.data(), arrays.weight_gradient.data(), arrays.bias_gradient.data()}));
    std::vector<float> in_gradient = twin.Backward(out_gradient);
    for (int64_t i = 0; i < shape.size(); ++i) in_gradient[i] += shortcut[i];
    ExpectNear(arrays.in_gradient, in_gradient);
    // Both are sums of floats in either precision.
    ExpectNear(arrays.weight_gradient.Read(), weight_gradient, 1e-4);
    ExpectNear(arrays.bias_gradient.Read(), bias_gradient, 1e-4);
  }
}

TYPED_TEST(CudaTextTest, RmsNormIsTheCpus) {
  for (const Matrix shape : {Matrix{3, 5}, Matrix{70, 256}, Matrix{40, 1000}, Matrix{9, 1601}}) {
    const auto in = RandomValues<TypeParam>(shape.size(), 1);
    const auto out_gradient = RandomValues<TypeParam>(shape.size(), 3);
    const auto weight = RandomValues<float>(shape.columns, 5);
    std::vector<float> weight_gradient(shape.columns);
    const ParameterViews views = {.weight = weight.data(),
                                  .weight_gradient = weight_gradient.data()};
    const int rows = static_cast<int>(shape.rows);
    CpuTwin twin(model::RmsNorm{.epsilon = 1e-3}, {shape.columns}, {shape.columns}, rows,
                 {.parameters = views});
    const auto device_in = OnDevice<TypeParam>(in), gradient = OnDevice<TypeParam>(out_gradient);
    const auto device_weight = OnDevice<float>(weight);
    NormArrays<TypeParam> arrays(shape);
    this->Finish(LayerNormForward(this->stream(), device_in.data(),
                                  {device_weight.data(), nullptr, 1e-3f}, shape, arrays.moments(),
                                  arrays.out.data()));
    ExpectNear(arrays.out, twin.Forward(in, {}));
    const TypeParam* no_shortcut = nullptr;
    this->Finish(
        LayerNormBackward(this->stream(), device_in.data(), gradient.data(), no_shortcut,
                          device_weight.data(), arrays.moments(), shape, arrays.workspace.data(),
                          {arrays.in_gradient.data(), arrays.weight_gradient.data(), nullptr}));
    ExpectNear(arrays.in_gradient, twin.Backward(out_gradient));
    ExpectNear(arrays.weight_gradient.Read(), weight_gradient, 1e-4);
  }
}

TYPED_TEST(CudaTextTest, SoftmaxIsTheCpus) {
  for (const Matrix shape : {Matrix{3, 1}, Matrix{70, 10}, Matrix{33, 256}, Matrix{5, 1001}}) {
    auto in = RandomValues<TypeParam>(shape.size(), 1);
    for (float& value : in) value *= 8;
    const auto out_gradient = RandomValues<TypeParam>(shape.size(), 2);
    CpuTwin twin(model::Softmax(), {shape.columns}, {shape.columns}, static_cast<int>(shape.rows));
    const auto device = OnDevice<TypeParam>(in), gradient = OnDevice<TypeParam>(out_gradient);
    DeviceArray<TypeParam> out(shape.size()), in_gradient(shape.size());
    this->Finish(SoftmaxForward(this->stream(), device.data(), shape, out.data()));
    ExpectNear(out, twin.Forward(in, {}));
    this->Finish(
        SoftmaxBackward(this->stream(), out.data(), gradient.data(), shape, in_gradient.data()));
    // Backward takes the rounded output, and its terms nearly cancel.
    ExpectNear(in_gradient.ReadFloats(), twin.Backward(out_gradient), 8 * Precision<TypeParam>());
  }
}

// Attention over rotated queries and keys is the CPU's rotary attention; and turning back undoes
// the rotation.
TYPED_TEST(CudaTextTest, TheRotationIsTheCpus) {
  for (const AttentionShape shape : {AttentionShape{2, 9, 2, 6}, AttentionShape{2, 9, 3, 32}}) {
    const int64_t features = shape.features(), rows = shape.samples * shape.tokens;
    const auto in = RandomValues<TypeParam>(rows * 3 * features, 1);
    const RotaryAngles angles(shape.tokens, shape.head_features);
    std::vector<float> table = angles.cosines;
    table.insert(table.end(), angles.sines.begin(), angles.sines.end());
    const auto device = OnDevice<TypeParam>(in);
    const auto device_table = OnDevice<float>(table);
    DeviceArray<TypeParam> turned(rows * 3 * features), back(rows * 3 * features);
    this->Finish(
        Rotate(this->stream(), device.data(), device_table.data(), shape, false, turned.data()));
    this->Finish(
        Rotate(this->stream(), turned.data(), device_table.data(), shape, true, back.data()));
    ExpectNear(back.ReadFloats(), in, 8 * Precision<TypeParam>());  // the terms nearly cancel
    CpuTwin rotary(model::Attention{static_cast<int>(shape.heads), true, /*rotary=*/true},
                   {shape.tokens, 3 * features}, {shape.tokens, features},
                   static_cast<int>(shape.samples));
    CpuTwin plain(model::Attention{static_cast<int>(shape.heads), true},
                  {shape.tokens, 3 * features}, {shape.tokens, features},
                  static_cast<int>(shape.samples));
    ExpectNear(plain.Forward(turned.ReadFloats(), {}), rotary.Forward(in, {}),
               Precision<TypeParam>());
  }
}

TEST_F(CudaTest, AttentionIsTheCpus) {
  for (const AttentionShape shape :
       {AttentionShape{2, 5, 1, 3}, AttentionShape{2, 33, 2, 16}, AttentionShape{1, 70, 1, 64},
        AttentionShape{1, 33, 1, 100}, AttentionShape{1, 33, 1, 128},
        AttentionShape{2, 5, 1, 3, false}, AttentionShape{1, 70, 2, 16, false},
        AttentionShape{1, 32, 1, 64, false}}) {
    const int64_t features = shape.features();
    const int64_t rows = shape.samples * shape.tokens;
    const auto in = RandomValues<float>(rows * 3 * features, 1);
    const auto out_gradient = RandomValues<float>(rows * features, 2);
    CpuTwin twin(model::Attention{static_cast<int>(shape.heads), shape.causal},
                 {shape.tokens, 3 * features}, {shape.tokens, features},
                 static_cast<int>(shape.samples));
    const auto device_in = OnDevice<float>(in);
    const auto device_out_gradient = OnDevice<float>(out_gradient);
    DeviceArray<float> log_sums(shape.rows()), out(rows * features);
    DeviceArray<float> in_gradient(rows * 3 * features);
    DeviceArray<float> workspace(AttentionBackwardWorkspace(shape));
    Finish(AttentionForward(stream(), device_in.data(), shape, log_sums.data(), out.data()));
    ExpectNear(out, twin.Forward(in, {}));
    Finish(AttentionBackward(stream(), device_in.data(), out.data(), log_sums.data(),
                             device_out_gradient.data(), shape, workspace.data(),
                             in_gradient.data()));
    ExpectNear(in_gradient, twin.Backward(out_gradient));
  }
}

}  // namespace
}  // namespace dp::engine::cuda
