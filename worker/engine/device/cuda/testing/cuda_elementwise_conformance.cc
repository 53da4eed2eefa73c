#include <cmath>
#include <limits>

#include "worker/engine/device/cpu/cpu_nan.h"
#include "worker/engine/device/cuda/arrays/cuda_finite.h"
#include "worker/engine/device/cuda/kernels/cuda_cast.h"
#include "worker/engine/device/cuda/kernels/cuda_elementwise.h"
#include "worker/engine/device/cuda/kernels/cuda_transpose.h"
#include "worker/engine/device/cuda/random/cuda_dropout.h"
#include "worker/engine/device/cuda/random/cuda_fill.h"
#include "worker/engine/device/cuda/random/cuda_random.h"
#include "worker/engine/device/cuda/testing/cuda_testing.h"

namespace dp::engine::cuda {
namespace {

// Not a multiple of a vector's width, so that a few elements are left over.
constexpr int64_t kSize = 10007;

template <typename T>
using CudaElementwiseTest = CudaPrecisionTest<T>;
TYPED_TEST_SUITE(CudaElementwiseTest, Precisions);

using CudaFiniteTest = CudaTest;

// The largest numbers are finite; a NaN or an infinity counts wherever it is.
TEST_F(CudaFiniteTest, FindsWhatIsNotFiniteAsTheCpu) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const float value : {0.0f, kLargest, -kLargest, kInfinity, -kInfinity, NAN, -NAN}) {
    for (const int64_t at : {int64_t{0}, kSize / 2, kSize - 1}) {
      auto values = RandomValues<float>(kSize, 1);
      values[at] = value;
      const auto device = OnDevice<float>(values);
      DeviceArray<int32_t> found(std::vector<int32_t>{0});
      this->Finish(FindNotFinite(this->stream(), device.data(), kSize, found.data()));
      EXPECT_EQ(found.Read()[0] == 0, std::isfinite(LargestMagnitude(values))) << value;
      EXPECT_EQ(found.Read()[0] == 0, std::isfinite(value)) << value << " at " << at;
    }
  }
}

TYPED_TEST(CudaElementwiseTest, AddsAsTheCpu) {
  const auto a = RandomValues<TypeParam>(kSize, 1);
  const auto b = RandomValues<TypeParam>(kSize, 2);
  std::vector<float> sum(kSize);
  for (int64_t i = 0; i < kSize; ++i) sum[i] = a[i] + b[i];
  const auto device = OnDevice<TypeParam>(a);
  const auto other = OnDevice<TypeParam>(b);
  this->Finish(Add(this->stream(), device.data(), other.data(), kSize, device.data()));
  EXPECT_EQ(device.ReadFloats(), RoundedValues<TypeParam>(sum));
}

TYPED_TEST(CudaElementwiseTest, FillsWithNormalNumbers) {
  DeviceArray<TypeParam> out(kSize);
  this->Finish(FillNormal(this->stream(), /*seed=*/9, kSize, out.data()));
  std::vector<float> expected(kSize);
  for (int64_t i = 0; i < kSize; ++i) expected[i] = NormalAt(9, i);
  EXPECT_EQ(out.ReadFloats(), RoundedValues<TypeParam>(expected));
}

struct FunctionCase {
  Function function;
  model::LayerKind kind;
};

TYPED_TEST(CudaElementwiseTest, FunctionsAreTheCpus) {
  const FunctionCase cases[] = {{Function::kRelu, model::Relu()},
                                {Function::kGelu, model::Gelu()},
                                {Function::kExactGelu, model::Gelu{.exact = true}},
                                {Function::kSilu, model::Silu()},
                                {Function::kTanh, model::Tanh()},
                                {Function::kSigmoid, model::Sigmoid()}};
  for (const FunctionCase& each : cases) {
    SCOPED_TRACE(model::KindName(each.kind));
    auto in = RandomValues<TypeParam>(kSize, 1);
    // Far enough that slopes vanish. Where bf16 has rounded the output to 1, they have no digits.
    const bool keeps_digits = sizeof(TypeParam) == 4 || !SavesOutput(each.function);
    for (float& value : in) value *= keeps_digits ? 8.0f : 1.0f;
    const auto gradient = RandomValues<TypeParam>(kSize, 2);
    const auto device = OnDevice<TypeParam>(in);
    const auto device_gradient = OnDevice<TypeParam>(gradient);
    DeviceArray<TypeParam> out(kSize), in_gradient(kSize);
    CpuTwin twin(each.kind, {kSize}, {kSize}, 1);
    this->Finish(FunctionForward(this->stream(), each.function, device.data(), kSize, out.data()));
    ExpectNear(out, twin.Forward(in, {}));
    const auto& saved = SavesOutput(each.function) ? out : device;
    this->Finish(FunctionBackward(this->stream(), each.function, saved.data(),
                                  device_gradient.data(), kSize, in_gradient.data()));
    ExpectNear(in_gradient.ReadFloats(), twin.Backward(gradient), 2 * Precision<TypeParam>());
  }
}

TYPED_TEST(CudaElementwiseTest, AReluHasTheCpusBits) {
  const auto in = RandomValues<TypeParam>(kSize, 1);
  const auto gradient = RandomValues<TypeParam>(kSize, 2);
  const auto device = OnDevice<TypeParam>(in);
  const auto device_gradient = OnDevice<TypeParam>(gradient);
  DeviceArray<TypeParam> out(kSize), in_gradient(kSize);
  CpuTwin relu(model::Relu(), {kSize}, {kSize}, 1);
  this->Finish(FunctionForward(this->stream(), Function::kRelu, device.data(), kSize, out.data()));
  EXPECT_EQ(out.ReadFloats(), relu.Forward(in, {}));
  this->Finish(FunctionBackward(this->stream(), Function::kRelu, out.data(), device_gradient.data(),
                                kSize, in_gradient.data()));
  EXPECT_EQ(in_gradient.ReadFloats(), relu.Backward(gradient));
}

TYPED_TEST(CudaElementwiseTest, ANanPassesEveryFunction) {
  for (const Function function : {Function::kRelu, Function::kGelu, Function::kExactGelu,
                                  Function::kSilu, Function::kTanh, Function::kSigmoid}) {
    const auto device = OnDevice<TypeParam>({NAN, 1});
    DeviceArray<TypeParam> out(2);
    this->Finish(FunctionForward(this->stream(), function, device.data(), 2, out.data()));
    EXPECT_TRUE(std::isnan(out.ReadFloats()[0])) << static_cast<int>(function);
    EXPECT_FALSE(std::isnan(out.ReadFloats()[1])) << static_cast<int>(function);
  }
}

TYPED_TEST(CudaElementwiseTest, AddsBiasToEachRow) {
  for (int64_t columns : {1, 7, 10, 64}) {
    const Matrix shape = {33, columns};
    const auto in = RandomValues<TypeParam>(shape.size(), 1);
    const auto bias = RandomValues<float>(columns, 2);
    std::vector<float> expected(in);
    for (int64_t i = 0; i < shape.size(); ++i) {
      expected[i] = std::max(in[i] + bias[i % columns], 0.0f);
    }
    const auto device = OnDevice<TypeParam>(in);
    const auto device_bias = OnDevice<float>(bias);
    this->Finish(AddBias(this->stream(), device_bias.data(), shape, true, device.data()));
    EXPECT_EQ(device.ReadFloats(), RoundedValues<TypeParam>(expected));
  }
}

TYPED_TEST(CudaElementwiseTest, CastsToNearest) {
  const auto in = RandomValues<float>(kSize, 1);
  const auto device = OnDevice<float>(in);
  DeviceArray<TypeParam> out(kSize);
  this->Finish(Cast(this->stream(), device.data(), kSize, out.data()));
  EXPECT_EQ(out.ReadFloats(), RoundedValues<TypeParam>(in));
}

TYPED_TEST(CudaElementwiseTest, TransposesThereAndBack) {
  for (const Matrices shape : {Matrices{3, 1, 50}, Matrices{2, 33, 65}, Matrices{1100, 3, 5}}) {
    const int64_t size = shape.count * shape.rows * shape.columns;
    const auto in = RandomValues<TypeParam>(size, 1);
    std::vector<float> expected(size);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t matrix = i / (shape.rows * shape.columns);
      const int64_t row = i / shape.columns % shape.rows;
      const int64_t column = i % shape.columns;
      expected[(matrix * shape.columns + column) * shape.rows + row] = in[i];
    }
    const auto device = OnDevice<TypeParam>(in);
    DeviceArray<TypeParam> across(size);
    DeviceArray<float> back(size);
    this->Finish(Transpose(this->stream(), device.data(), shape, across.data()));
    EXPECT_EQ(across.ReadFloats(), expected);
    this->Finish(Transpose(this->stream(), across.data(), {shape.count, shape.columns, shape.rows},
                           back.data()));
    EXPECT_EQ(back.Read(), in);
  }
}

// The mask is the CPU's, bit for bit, in both orders of memory.
TYPED_TEST(CudaElementwiseTest, DropsWhatTheCpuDrops) {
  constexpr int kBatch = 5;
  constexpr int64_t kChannels = 6, kPlaces = 12, kSample = kChannels * kPlaces;
  const std::vector<int64_t> samples = {3, 59999, 0, 7, 0};
  const Batch batch = {.samples = samples, .count = 4, .draw = 11};
  CpuTwin twin(model::Dropout{.p = 0.3}, {kSample}, {kSample}, kBatch, {.seed = 5});
  const std::vector<float> ones(kBatch * kSample, 1.0f);
  const std::vector<float> mask = RoundedValues<TypeParam>(twin.Forward(ones, batch));
  std::vector<float> mask_last(mask.size());  // channels last
  for (size_t i = 0; i < mask.size(); ++i) {
    const int64_t in_sample = static_cast<int64_t>(i) % kSample;
    const int64_t place = in_sample % kPlaces * kChannels + in_sample / kPlaces;
    mask_last[i - in_sample + place] = mask[i];
  }
  const StepInput* step = this->Step({.count = batch.count, .draw = batch.draw});
  const DeviceArray<int64_t> device_samples(samples);
  const auto in = OnDevice<TypeParam>(ones);
  DeviceArray<TypeParam> out(kBatch * kSample);
  const DropoutOptions options = {.p = 0.3, .seed = 5};
  this->Finish(Dropout(this->stream(), in.data(), device_samples.data(), {kBatch, 1, kSample},
                       options, step, out.data()));
  EXPECT_EQ(out.ReadFloats(), mask);
  this->Finish(Dropout(this->stream(), in.data(), device_samples.data(),
                       {kBatch, kChannels, kPlaces}, options, step, out.data()));
  EXPECT_EQ(out.ReadFloats(), mask_last);
}

TEST_F(CudaTest, TokensAreCastFromFloats) {
  const auto in = OnDevice<float>({0, 1, 50256, 65535, 3});
  DeviceArray<int32_t> out(5);
  Finish(Cast(stream(), in.data(), 5, out.data()));
  EXPECT_THAT(out.Read(), ::testing::ElementsAre(0, 1, 50256, 65535, 3));
}

}  // namespace
}  // namespace dp::engine::cuda
