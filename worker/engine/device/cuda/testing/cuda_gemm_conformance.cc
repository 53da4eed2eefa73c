#include "worker/engine/device/cuda/libraries/cuda_gemm.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "worker/engine/device/cuda/testing/cuda_plans_testing.h"

namespace dp::engine::cuda {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

using Values = std::vector<float>;

template <typename T>
using CudaGemmTest = CudaPlansTest<T>;
TYPED_TEST_SUITE(CudaGemmTest, Precisions);

float Gelu(float x) {
  return 0.5f * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715f * x * x * x)));
}
float GeluSlope(float x) {
  const float root = std::sqrt(2 / M_PI);
  const float t = std::tanh(root * (x + 0.044715f * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * root * (1 + 3 * 0.044715f * x * x);
}

// cuBLASLt's tanh may be the card's instruction, which is exact to eleven bits.
template <typename T>
constexpr double GeluPrecision() {
  return std::max(Precision<T>(), 1e-3);
}

// op(a) op(b) as GemmShape defines it.
Values Product(const GemmShape& s, const Values& a, const Values& b) {
  Values out(s.m * s.n);
  for (int64_t m = 0; m < s.m; ++m) {
    for (int64_t n = 0; n < s.n; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < s.k; ++k) {
        sum += double{a[s.transpose_a ? k * s.m + m : m * s.k + k]} *
               b[s.transpose_b ? n * s.k + k : k * s.n + n];
      }
      out[m * s.n + n] = static_cast<float>(sum);
    }
  }
  return out;
}

// A product with an epilogue: arrays on both sides, run and compared.
template <typename T>
struct GemmCase {
  explicit GemmCase(const GemmShape& shape)
      : shape(shape),
        a(RandomValues<T>(shape.m * shape.k, 1)),
        b(RandomValues<T>(shape.k * shape.n, 2)),
        bias(RandomValues<T>(shape.epilogue == Epilogue::kBiasGradient ? shape.m : shape.n, 3)),
        aux(RandomValues<T>(shape.m * shape.n, 4)),
        product(Product(shape, a, b)) {}

  GemmOperands operands() {
    GemmOperands to{.a = device_a.data(), .b = device_b.data(), .out = device_out.data()};
    if (UsesBias(shape.epilogue)) to.bias = device_bias.data();
    if (UsesAux(shape.epilogue)) to.aux = device_aux.data();
    return to;
  }
  // The expected `out`: `of` each element of the product and its index.
  Values Each(const std::function<float(float value, int64_t i)>& of) const {
    Values out = product;
    for (size_t i = 0; i < out.size(); ++i) out[i] = of(out[i], static_cast<int64_t>(i));
    return out;
  }
  float BiasAt(int64_t i) const { return bias[i % shape.n]; }

  GemmShape shape;
  Values a, b, bias, aux, product;
  DeviceArray<T> device_a = OnDevice<T>(a);
  DeviceArray<T> device_b = OnDevice<T>(b);
  DeviceArray<T> device_bias = OnDevice<T>(bias);
  DeviceArray<T> device_aux = OnDevice<T>(aux);
  DeviceArray<T> device_out = DeviceArray<T>(shape.m * shape.n);
};

template <typename T>
GemmShape Sizes(int64_t m, int64_t n, int64_t k, Epilogue epilogue = Epilogue::kNone) {
  return {.m = m, .n = n, .k = k, .in = kTypeOf<T>, .out = kTypeOf<T>, .epilogue = epilogue};
}

TYPED_TEST(CudaGemmTest, ProductsAreTheCpusTransposedOrNot) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      GemmShape shape = Sizes<TypeParam>(72, 40, 96);
      shape.transpose_a = transpose_a;
      shape.transpose_b = transpose_b;
      GemmCase<TypeParam> gemm(shape);
      auto plan = GemmPlan::Make(this->Plan(), shape, gemm.operands());
      ASSERT_TRUE(plan.ok()) << plan.status();
      this->Done(plan->Run(this->stream(), gemm.operands(), 0.5f));
      ExpectNear(gemm.device_out, gemm.Each([](float x, int64_t) { return x / 2; }));
    }
  }
}

TYPED_TEST(CudaGemmTest, OddSizesAreComputedToo) {
  const GemmShape shape = Sizes<TypeParam>(5, 10, 49, Epilogue::kBias);
  GemmCase<TypeParam> gemm(shape);
  auto plan = GemmPlan::Make(this->Plan(), shape, gemm.operands());
  ASSERT_TRUE(plan.ok()) << plan.status();
  this->Done(plan->Run(this->stream(), gemm.operands()));
  ExpectNear(gemm.device_out, gemm.Each([&](float x, int64_t i) { return x + gemm.BiasAt(i); }));
}

TYPED_TEST(CudaGemmTest, AProductReplacesWhatIsThere) {
  const GemmShape shape = Sizes<TypeParam>(16, 24, 32);
  GemmCase<TypeParam> gemm(shape);
  auto plan = GemmPlan::Make(this->Plan(Tuning::kFirst), shape, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  DeviceArray<TypeParam> out = OnDevice<TypeParam>(gemm.aux);
  GemmOperands operands = gemm.operands();
  operands.out = out.data();
  this->Done(plan->Run(this->stream(), operands));
  ExpectNear(out, gemm.Each([](float x, int64_t) { return x; }));
}

// 256 + 1 + 2: in bf16 that is 260, but 258 if the sum of the first two is rounded before.
TYPED_TEST(CudaGemmTest, SumsAreRoundedOnce) {
  const int64_t depth = 4096;
  const GemmShape shape = Sizes<TypeParam>(8, 8, depth);
  Values a(8 * depth);
  for (int64_t row = 0; row < 8; ++row) {
    a[row * depth] = 256;
    a[row * depth + 1] = 1;
    a[(row + 1) * depth - 1] = 2;
  }
  const DeviceArray<TypeParam> left = OnDevice<TypeParam>(a);
  const DeviceArray<TypeParam> right = OnDevice<TypeParam>(Values(depth * 8, 1));
  const DeviceArray<TypeParam> out(8 * 8);
  const GemmOperands operands{.a = left.data(), .b = right.data(), .out = out.data()};
  for (const Tuning tuning : {Tuning::kFirst, Tuning::kTimed}) {
    auto plan = GemmPlan::Make(this->Plan(tuning), shape, operands);
    ASSERT_TRUE(plan.ok()) << plan.status();
    this->Done(plan->Run(this->stream(), operands));
    EXPECT_THAT(out.ReadFloats(), Each(Widened(Rounded<TypeParam>(259))));
  }
}

// Where cuBLASLt lacks an epilogue, the network uses a kernel of its own.
TYPED_TEST(CudaGemmTest, EpiloguesAreTheModels) {
  const struct {
    Epilogue epilogue;
    std::function<float(float)> of;
  } cases[] = {{Epilogue::kBias, [](float x) { return x; }},
               {Epilogue::kBiasRelu, [](float x) { return std::max(x, 0.0f); }},
               {Epilogue::kBiasGeluAux, Gelu}};
  absl::Status missing;
  for (const auto& each : cases) {
    GemmShape shape = Sizes<TypeParam>(48, 64, 32, each.epilogue);
    shape.transpose_b = true;
    GemmCase<TypeParam> gemm(shape);
    auto plan = GemmPlan::Make(this->Plan(), shape, gemm.operands());
    if (absl::IsUnimplemented(plan.status())) {
      missing.Update(plan.status());
      continue;
    }
    ASSERT_TRUE(plan.ok()) << plan.status();
    this->Done(plan->Run(this->stream(), gemm.operands()));
    ExpectNear(gemm.device_out.ReadFloats(),
               gemm.Each([&](float x, int64_t i) { return each.of(x + gemm.BiasAt(i)); }),
               GeluPrecision<TypeParam>());
    if (each.epilogue != Epilogue::kBiasGeluAux) continue;
    ExpectNear(gemm.device_aux, gemm.Each([&](float x, int64_t i) { return x + gemm.BiasAt(i); }));
  }
  if (!missing.ok()) GTEST_SKIP() << missing;
}

TYPED_TEST(CudaGemmTest, GradientsOfTheGeluAreTheModels) {
  const GemmShape shape = Sizes<TypeParam>(48, 64, 32, Epilogue::kGeluGradient);
  GemmCase<TypeParam> gemm(shape);
  auto plan = GemmPlan::Make(this->Plan(), shape, gemm.operands());
  if (absl::IsUnimplemented(plan.status())) GTEST_SKIP() << plan.status();
  ASSERT_TRUE(plan.ok()) << plan.status();
  this->Done(plan->Run(this->stream(), gemm.operands()));
  ExpectNear(gemm.device_out.ReadFloats(),
             gemm.Each([&](float x, int64_t i) { return x * GeluSlope(gemm.aux[i]); }),
             GeluPrecision<TypeParam>());
}

// Where cuBLASLt lacks this epilogue, the network sums columns itself.
TYPED_TEST(CudaGemmTest, TheGradientOfABiasIsTheSumOverRows) {
  GemmShape shape = Sizes<TypeParam>(24, 40, 64, Epilogue::kBiasGradient);
  shape.transpose_a = true;
  GemmCase<TypeParam> gemm(shape);
  auto plan = GemmPlan::Make(this->Plan(), shape, gemm.operands());
  if (absl::IsUnimplemented(plan.status())) GTEST_SKIP() << plan.status();
  ASSERT_TRUE(plan.ok()) << plan.status();
  this->Done(plan->Run(this->stream(), gemm.operands()));
  ExpectNear(gemm.device_out, gemm.product);
  Values sums(shape.m);
  for (size_t i = 0; i < gemm.a.size(); ++i) sums[i % shape.m] += gemm.a[i];
  ExpectNear(gemm.device_bias, sums);
}

TYPED_TEST(CudaGemmTest, ATunedShapeIsKnownToTheCacheAndRunsTheSame) {
  const GemmShape shape = Sizes<TypeParam>(128, 128, 512);
  GemmCase<TypeParam> gemm(shape);
  auto tuned = GemmPlan::Make(this->Plan(), shape, gemm.operands());
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_TRUE(this->cache_.Find(Describe(shape)));
  this->Done(tuned->Run(this->stream(), gemm.operands()));
  const Values first = gemm.device_out.ReadFloats();
  testing::internal::CaptureStderr();
  auto again = GemmPlan::Make(this->Plan(), shape, gemm.operands());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("cuda_plan_gone")));
  ASSERT_TRUE(again.ok()) << again.status();
  this->Done(again->Run(this->stream(), gemm.operands()));
  EXPECT_EQ(gemm.device_out.ReadFloats(), first);
}

TYPED_TEST(CudaGemmTest, AChoiceThatTheLibraryDoesNotKnowIsReplaced) {
  const GemmShape shape = Sizes<TypeParam>(64, 64, 64);
  this->cache_.Put(Describe(shape), "of no library");
  GemmCase<TypeParam> gemm(shape);
  ASSERT_TRUE(GemmPlan::Make(this->Plan(), shape, gemm.operands()).ok());
  EXPECT_NE(this->cache_.Find(Describe(shape)), "of no library");
}

}  // namespace
}  // namespace dp::engine::cuda
