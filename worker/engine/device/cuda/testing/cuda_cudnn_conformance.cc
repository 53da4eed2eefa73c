#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "worker/engine/device/cuda/libraries/cuda_attention_plan.h"
#include "worker/engine/device/cuda/libraries/cuda_convolution.h"
#include "worker/engine/device/cuda/testing/cuda_convolution_terms.h"
#include "worker/engine/device/cuda/testing/cuda_plans_testing.h"

namespace dp::engine::cuda {
namespace {

using Values = std::vector<float>;

template <typename T>
using CudaConvolutionTest = CudaPlansTest<T>;
TYPED_TEST_SUITE(CudaConvolutionTest, Precisions);

// A convolution with the three arrays on both sides, channels last.
template <typename T>
struct ConvolutionCase {
  explicit ConvolutionCase(const ConvolutionShape& shape)
      : shape(shape),
        in(RandomValues<T>(shape.batch * shape.height * shape.width * shape.in, 1)),
        weight(RandomValues<T>(shape.out * shape.places() * shape.group_in(), 2)),
        bias(RandomValues<T>(shape.out, 3)),
        out(RandomValues<T>(shape.batch * shape.out_height() * shape.out_width() * shape.out, 4)) {}

  ConvolutionOperands operands() {
    return {.in = device_in.data(),
            .weight = device_weight.data(),
            .bias = device_bias.data(),
            .out = device_out.data()};
  }

  ConvolutionShape shape;
  Values in, weight, bias, out;
  DeviceArray<T> device_in = OnDevice<T>(in);
  DeviceArray<T> device_weight = OnDevice<T>(weight);
  DeviceArray<T> device_bias = OnDevice<T>(bias);
  DeviceArray<T> device_out = OnDevice<T>(out);
};

template <typename T>
std::vector<ConvolutionShape> Convolutions() {
  ConvolutionShape grouped = {2, 9, 11, 32, 16, 3, 2, 1, kTypeOf<T>, true, true};
  grouped.groups = 2;
  ConvolutionShape dilated = {2, 9, 11, 8, 16, 3, 1, 2, kTypeOf<T>, false, false};
  dilated.dilation = 2;
  ConvolutionShape sequence = {3, 1, 20, 8, 16, 5, 1, 2, kTypeOf<T>, true, false};
  sequence.one_row = true;
  return {{4, 28, 28, 1, 16, 3, 1, 1, kTypeOf<T>, true, true},
          {4, 14, 14, 16, 32, 3, 1, 1, kTypeOf<T>, true, false},
          {3, 9, 11, 8, 16, 5, 2, 2, kTypeOf<T>, false, true},
          grouped,
          dilated,
          sequence};
}

TYPED_TEST(CudaConvolutionTest, ConvolutionsForwardAreTheDefinition) {
  for (const ConvolutionShape& shape : Convolutions<TypeParam>()) {
    ConvolutionCase<TypeParam> conv(shape);
    auto plan =
        ConvolutionPlan::Make(this->Plan(), shape, ConvolutionPass::kForward, conv.operands());
    ASSERT_TRUE(plan.ok()) << plan.status();
    this->Done(plan->Run(this->stream(), conv.operands()));
    Values expected(conv.out.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = shape.bias ? conv.bias[i % shape.out] : 0;
    }
    ForEachConvolutionTerm(shape, [&](int64_t in, int64_t weight, int64_t out) {
      expected[out] += conv.in[in] * conv.weight[weight];
    });
    for (float& value : expected) value = shape.relu ? std::max(value, 0.0f) : value;
    ExpectNear(conv.device_out, expected);
  }
}

TYPED_TEST(CudaConvolutionTest, ConvolutionsBackwardAreTheDefinition) {
  for (const ConvolutionShape& shape : Convolutions<TypeParam>()) {
    ConvolutionCase<TypeParam> conv(shape);
    Values in_gradient(conv.in.size()), weight_gradient(conv.weight.size());
    ForEachConvolutionTerm(shape, [&](int64_t in, int64_t weight, int64_t out) {
      in_gradient[in] += conv.out[out] * conv.weight[weight];
      weight_gradient[weight] += conv.out[out] * conv.in[in];
    });
    DeviceArray<TypeParam> device_in(in_gradient.size()), device_weight(weight_gradient.size());
    ConvolutionOperands to_data = conv.operands();
    to_data.in = device_in.data();
    auto data = ConvolutionPlan::Make(this->Plan(), shape, ConvolutionPass::kBackwardData, to_data);
    ASSERT_TRUE(data.ok()) << data.status();
    this->Done(data->Run(this->stream(), to_data));
    ExpectNear(device_in, in_gradient);
    ConvolutionOperands to_filter = conv.operands();
    to_filter.weight = device_weight.data();
    auto filter =
        ConvolutionPlan::Make(this->Plan(), shape, ConvolutionPass::kBackwardFilter, to_filter);
    ASSERT_TRUE(filter.ok()) << filter.status();
    this->Done(filter->Run(this->stream(), to_filter));
    ExpectNear(device_weight, weight_gradient);
  }
}

using CudaAttentionPlanTest = CudaPlansTest<bf16>;

// Arrays of a packed attention, and its CPU twin.
struct AttentionCase {
  explicit AttentionCase(const AttentionShape& shape)
      : shape(shape),
        size(shape.samples * shape.tokens * shape.features()),
        in(RandomValues<bf16>(3 * size, 1)),
        out_gradient(RandomValues<bf16>(size, 2)),
        twin(model::CausalAttention{static_cast<int>(shape.heads)},
             {shape.tokens, 3 * shape.features()}, {shape.tokens, shape.features()},
             static_cast<int>(shape.samples)) {}

  AttentionOperands operands() {
    return {.in = device_in.data(),
            .out = device_out.data(),
            .log_sums = log_sums.data(),
            .out_gradient = device_gradient.data(),
            .in_gradient = in_gradient.data()};
  }

  const AttentionShape shape;
  const int64_t size;
  const Values in, out_gradient;
  CpuTwin twin;
  DeviceArray<bf16> device_in = OnDevice<bf16>(in);
  DeviceArray<bf16> device_gradient = OnDevice<bf16>(out_gradient);
  DeviceArray<bf16> device_out = DeviceArray<bf16>(size);
  DeviceArray<bf16> in_gradient = DeviceArray<bf16>(3 * size);
  DeviceArray<float> log_sums = DeviceArray<float>(shape.rows());
};

// The cache's name for the choice between the forms of backward.
std::string FormOf(const AttentionShape& shape) {
  return Describe(shape, AttentionPass::kBackward) + " deterministic or atomic";
}

// Probabilities and slopes are rounded to bfloat16 on their way.
constexpr double kAttentionPrecision = 3.0 / 128;

TEST_F(CudaAttentionPlanTest, AttentionIsTheCpus) {
  for (const AttentionShape& shape : {AttentionShape{2, 128, 3, 64}, AttentionShape{3, 100, 2, 32},
                                      AttentionShape{1, 77, 1, 128}}) {
    AttentionCase attention(shape);
    auto plan = AttentionPlan::Make(Plan(), shape, {.training = true}, attention.operands());
    ASSERT_TRUE(plan.ok()) << plan.status();
    Done(plan->Forward(stream(), attention.operands()));
    ExpectNear(attention.device_out.ReadFloats(), attention.twin.Forward(attention.in, {}),
               kAttentionPrecision);
    Done(plan->Backward(stream(), attention.operands()));
    ExpectNear(attention.in_gradient.ReadFloats(), attention.twin.Backward(attention.out_gradient),
               kAttentionPrecision);
  }
}

// The sums of the atomic form hold NaNs before its first run, and a gradient before its second.
TEST_F(CudaAttentionPlanTest, TheAtomicFormIsTheCpusToo) {
  for (const AttentionShape& shape : {AttentionShape{2, 128, 3, 64}, AttentionShape{3, 100, 2, 32},
                                      AttentionShape{1, 77, 1, 128}}) {
    AttentionCase attention(shape);
    cache_.Put(FormOf(shape), "atomic");
    auto plan = AttentionPlan::Make(Plan(), shape, {.training = true, .deterministic = false},
                                    attention.operands());
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(cache_.Find(FormOf(shape)), "atomic");
    Done(plan->Forward(stream(), attention.operands()));
    (void)attention.twin.Forward(attention.in, {});
    const Values expected = attention.twin.Backward(attention.out_gradient);
    for (int run = 0; run < 2; ++run) {
      Done(plan->Backward(stream(), attention.operands()));
      ExpectNear(attention.in_gradient.ReadFloats(), expected, kAttentionPrecision);
    }
  }
}

TEST_F(CudaAttentionPlanTest, WhoeverTakesOtherBitsGetsTheFasterForm) {
  const AttentionShape shape{1, 64, 1, 32};
  AttentionCase attention(shape);
  auto plan = AttentionPlan::Make(Plan(), shape, {.training = true, .deterministic = false},
                                  attention.operands());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(cache_.Find(FormOf(shape)));
  EXPECT_TRUE(cache_.Find(Describe(shape, AttentionPass::kBackward)));
  EXPECT_TRUE(cache_.Find(Describe(shape, AttentionPass::kAtomicBackward)));
}

// Not even where another job of the same user has found the atomic form to be faster.
TEST_F(CudaAttentionPlanTest, ADeterministicPlanNeverAddsAtomically) {
  const AttentionShape shape{1, 64, 1, 32};
  AttentionCase attention(shape);
  cache_.Put(FormOf(shape), "atomic");
  ASSERT_TRUE(AttentionPlan::Make(Plan(), shape, {.training = true}, attention.operands()).ok());
  EXPECT_FALSE(cache_.Find(Describe(shape, AttentionPass::kAtomicBackward)));
  EXPECT_TRUE(cache_.Find(Describe(shape, AttentionPass::kBackward)));
  const absl::Status refused =
      CudnnPlan::Make(Plan(Tuning::kFirst), MakeAtomicBackwardGraph(shape), {.name = "atomic"}, {})
          .status();
  EXPECT_TRUE(absl::IsUnimplemented(refused)) << refused;
}

TEST_F(CudaAttentionPlanTest, BackwardHasTheSameBitsInEveryRun) {
  const AttentionShape shape{8, 512, 4, 64};
  AttentionCase attention(shape);
  auto plan = AttentionPlan::Make(Plan(), shape, {.training = true}, attention.operands());
  ASSERT_TRUE(plan.ok()) << plan.status();
  Done(plan->Forward(stream(), attention.operands()));
  Done(plan->Backward(stream(), attention.operands()));
  const Values first = attention.in_gradient.ReadFloats();
  for (int i = 0; i < 10; ++i) {
    Done(plan->Backward(stream(), attention.operands()));
    EXPECT_EQ(attention.in_gradient.ReadFloats(), first);
  }
}

TEST_F(CudaAttentionPlanTest, WidthsThatCudnnDoesNotTakeAreUnimplemented) {
  const auto plan = AttentionPlan::Make(Plan(), {1, 16, 1, 12}, {.training = true}, {});
  EXPECT_TRUE(absl::IsUnimplemented(plan.status())) << plan.status();
}

}  // namespace
}  // namespace dp::engine::cuda
