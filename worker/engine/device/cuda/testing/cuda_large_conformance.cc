#include <algorithm>
#include <vector>

#include "worker/engine/device/cuda/libraries/cuda_gemm.h"
#include "worker/engine/device/cuda/losses/cuda_cross_entropy.h"
#include "worker/engine/device/cuda/random/cuda_fill.h"
#include "worker/engine/device/cuda/random/cuda_random.h"
#include "worker/engine/device/cuda/testing/cuda_plans_testing.h"
#include "worker/engine/nn/cross_entropy.h"

// Arrays of more elements than 32 bits count, as logits of long batches are. The host computes only
// a few rows of them. The small case shows on the host that both sides mean the same rows.

namespace dp::engine::cuda {
namespace {

using Values = std::vector<float>;

// Sums of tens of thousands of float32, in another order than the host's.
constexpr double kOfLongSums = 1e-3;

constexpr int64_t kFeatures = 64;  // of the factors whose product the logits are

class CudaLargeTest : public CudaPlansTest<bf16>,
                      public ::testing::WithParamInterface<LogitsShape> {
 protected:
  void SetUp() override {
    CudaPlansTest<bf16>::SetUp();
    if (IsSkipped()) return;
    size_t free = 0, total = 0;
    ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    // The logits, and less than half as much for everything else.
    const auto needed = static_cast<size_t>(size()) * sizeof(bf16) * 3 / 2;
    if (free < needed) {
      GTEST_SKIP() << "the GPU has " << (free >> 20) << " MiB free, the test takes "
                   << (needed >> 20);
    }
  }

  const LogitsShape& shape() const { return GetParam(); }
  int64_t size() const { return shape().rows() * shape().stride; }

  // Places at both ends of `count`, and beside the element whose number needs a 32nd bit.
  static std::vector<int64_t> Some(int64_t count, int64_t per_place) {
    std::vector<int64_t> places = {0, 1, count - 2, count - 1};
    const int64_t border = (int64_t{1} << 31) / per_place;
    if (border + 1 < count) places.insert(places.end(), {border, border + 1});
    return places;
  }

  // An array that both sides can fill: FillNormal's numbers of this seed.
  DeviceArray<bf16> Filled(int64_t size, uint64_t seed) {
    DeviceArray<bf16> array(size);
    Finish(FillNormal(stream(), seed, size, array.data()));
    return array;
  }
  static float FilledAt(uint64_t seed, int64_t i) {
    return Widened(Rounded<bf16>(NormalAt(seed, i)));
  }
  static Values FilledRow(uint64_t seed, int64_t row, int64_t columns) {
    Values values(columns);
    for (int64_t c = 0; c < columns; ++c) values[c] = FilledAt(seed, row * columns + c);
    return values;
  }

  template <typename T>
  static Values ReadRow(const DeviceArray<T>& array, int64_t row, int64_t columns) {
    std::vector<T> values(columns);
    DP_CHECK(cudaMemcpy(values.data(), array.data() + row * columns, columns * sizeof(T),
                        cudaMemcpyDeviceToHost) == cudaSuccess);
    Values floats;
    for (const T value : values) floats.push_back(Widened(value));
    return floats;
  }

  void Multiply(const GemmShape& product, const GemmOperands& operands) {
    auto plan = GemmPlan::Make(Plan(Tuning::kFirst), product, operands);
    ASSERT_TRUE(plan.ok()) << plan.status();
    Done(plan->Run(stream(), operands));
  }
};

TEST_P(CudaLargeTest, CrossEntropyInPlaceIsTheCpus) {
  const DeviceArray<bf16> logits = Filled(size(), 1);
  std::vector<int32_t> labels(shape().rows());
  for (int64_t row = 0; row < shape().rows(); ++row) {
    labels[row] = static_cast<int32_t>(row * 7919 % shape().classes);
  }
  const DeviceArray<int32_t> device_labels(labels);
  DeviceArray<uint8_t> workspace(CrossEntropyWorkspace(shape()));
  DeviceArray<LossSums> sums(1);
  const float scale = 1024;  // or bf16 would round most of a gradient to 0
  const StepInput step = {.count = shape().samples, .gradient_scale = scale};
  Finish(SoftmaxCrossEntropy(stream(), logits.data(), device_labels.data(), shape(), Step(step),
                             workspace.data(), sums.data(), logits.data()));
  for (const int64_t row : Some(shape().rows(), shape().stride)) {
    const Values before = FilledRow(1, row, shape().stride);
    Values expected(shape().stride);
    engine::SoftmaxCrossEntropyGradient(absl::MakeConstSpan(before).first(shape().classes),
                                        static_cast<int>(shape().classes), {&labels[row], 1}, scale,
                                        absl::MakeSpan(expected).first(shape().classes));
    Values actual = ReadRow(logits, row, shape().stride);
    SCOPED_TRACE(row);
    // By itself, since it is thousands of times as large as the others.
    EXPECT_NEAR(actual[labels[row]], expected[labels[row]], scale * Precision<bf16>());
    actual[labels[row]] = expected[labels[row]] = 0;
    ExpectNear(actual, expected, Precision<bf16>());
  }
}

TEST_P(CudaLargeTest, AProductOfThatSizeIsTheCpus) {
  const DeviceArray<bf16> a = Filled(shape().rows() * kFeatures, 2);
  const DeviceArray<bf16> b = Filled(shape().stride * kFeatures, 3);
  const DeviceArray<bf16> out(size());
  Multiply({.m = shape().rows(),
            .n = shape().stride,
            .k = kFeatures,
            .transpose_b = true,
            .in = ElementType::kBfloat16,
            .out = ElementType::kBfloat16},
           {.a = a.data(), .b = b.data(), .out = out.data()});
  const Values right = FilledRow(3, 0, shape().stride * kFeatures);
  for (const int64_t row : Some(shape().rows(), shape().stride)) {
    const Values left = FilledRow(2, row, kFeatures);
    Values expected(shape().stride);
    for (int64_t n = 0; n < shape().stride; ++n) {
      for (int64_t k = 0; k < kFeatures; ++k) expected[n] += left[k] * right[n * kFeatures + k];
    }
    SCOPED_TRACE(row);
    ExpectNear(ReadRow(out, row, shape().stride), expected, Precision<bf16>());
  }
}

TEST_P(CudaLargeTest, ProductsThatReadThatManyAreTheCpus) {
  const DeviceArray<bf16> gradient = Filled(size(), 4);
  const DeviceArray<bf16> weight = Filled(shape().stride * kFeatures, 5);
  const DeviceArray<bf16> in = Filled(shape().rows() * kFeatures, 6);
  const DeviceArray<float> in_gradient(shape().rows() * kFeatures);
  const DeviceArray<float> weight_gradient(shape().stride * kFeatures);
  GemmShape product = {
      .m = shape().rows(), .n = kFeatures, .k = shape().stride, .in = ElementType::kBfloat16};
  Multiply(product, {.a = gradient.data(), .b = weight.data(), .out = in_gradient.data()});
  product.m = shape().stride;
  product.k = shape().rows();
  product.transpose_a = true;
  Multiply(product, {.a = gradient.data(), .b = in.data(), .out = weight_gradient.data()});

  const auto add = [](float factor, const float* values, Values& sums) {
    for (int64_t f = 0; f < kFeatures; ++f) sums[f] += factor * values[f];
  };
  const Values weights = FilledRow(5, 0, shape().stride * kFeatures);
  for (const int64_t row : Some(shape().rows(), shape().stride)) {
    Values expected(kFeatures);
    for (int64_t k = 0; k < shape().stride; ++k) {
      add(FilledAt(4, row * shape().stride + k), &weights[k * kFeatures], expected);
    }
    SCOPED_TRACE(row);
    ExpectNear(ReadRow(in_gradient, row, kFeatures), expected, kOfLongSums);
  }
  const Values ins = FilledRow(6, 0, shape().rows() * kFeatures);
  for (const int64_t column : {int64_t{0}, shape().stride - 1}) {
    Values expected(kFeatures);
    for (int64_t k = 0; k < shape().rows(); ++k) {
      add(FilledAt(4, k * shape().stride + column), &ins[k * kFeatures], expected);
    }
    SCOPED_TRACE(column);
    ExpectNear(ReadRow(weight_gradient, column, kFeatures), expected, kOfLongSums);
  }
}

INSTANTIATE_TEST_SUITE_P(Small, CudaLargeTest, ::testing::Values(LogitsShape{3, 5, 1030, 1032}));
// 2,213,376,000 logits: samples of 1000 tokens each.
INSTANTIATE_TEST_SUITE_P(Beyond32Bits, CudaLargeTest,
                         ::testing::Values(LogitsShape{44, 1000, 50257, 50304}));

}  // namespace
}  // namespace dp::engine::cuda
