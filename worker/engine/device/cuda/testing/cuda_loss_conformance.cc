#include <cmath>

#include "worker/engine/device/cuda/losses/cuda_cross_entropy.h"
#include "worker/engine/device/cuda/losses/cuda_label_smoothing.h"
#include "worker/engine/device/cuda/losses/cuda_output_loss.h"
#include "worker/engine/device/cuda/testing/cuda_testing.h"
#include "worker/engine/device/device.h"
#include "worker/engine/nn/cross_entropy.h"
#include "worker/engine/nn/loss.h"

namespace dp::engine::cuda {
namespace {

template <typename T>
using CudaLossTest = CudaPrecisionTest<T>;
TYPED_TEST_SUITE(CudaLossTest, Precisions);

// The results of nn/cross_entropy.h for those rows of padded logits that count.
struct Expectation {
  CrossEntropy loss;
  std::vector<float> gradient;  // rows x stride
};

Expectation Expect(const std::vector<float>& logits, const std::vector<int32_t>& labels,
                   LogitsShape shape, const StepInput& step) {
  std::vector<float> dense;
  for (int64_t row = 0; row < shape.rows(); ++row) {
    const auto begin = logits.begin() + row * shape.stride;
    dense.insert(dense.end(), begin, begin + shape.classes);
  }
  const int classes = static_cast<int>(shape.classes);
  const auto known = absl::MakeConstSpan(labels).first(step.count * shape.rows_per_sample);
  std::vector<float> gradient(dense.size());
  engine::SoftmaxCrossEntropyGradient(dense, classes, known, step.gradient_scale,
                                      absl::MakeSpan(gradient));
  Expectation expectation = {engine::SoftmaxCrossEntropy(dense, classes, known),
                             std::vector<float>(logits.size())};
  for (size_t i = 0; i < gradient.size(); ++i) {
    expectation.gradient[i / classes * shape.stride + i % classes] = gradient[i];
  }
  return expectation;
}

std::vector<int32_t> SomeLabels(LogitsShape shape) {
  std::vector<int32_t> labels;
  for (int64_t row = 0; row < shape.rows(); ++row) {
    labels.push_back(static_cast<int32_t>(row * 7919 % shape.classes));
  }
  return labels;
}

TYPED_TEST(CudaLossTest, IsTheCpus) {
  for (const LogitsShape shape :
       {LogitsShape{37, 1, 10, 10}, LogitsShape{40, 2, 13, 16}, LogitsShape{1100, 1, 10, 10},
        LogitsShape{130, 8, 13, 16}, LogitsShape{6, 5, 65, 72}, LogitsShape{3, 4, 1024, 1024},
        LogitsShape{3, 2, 5003, 5003}, LogitsShape{4, 3, 50257, 50304}}) {
    auto logits = RandomValues<TypeParam>(shape.rows() * shape.stride, 1);
    const std::vector<int32_t> labels = SomeLabels(shape);
    // In every other row the label has the largest logit; in every fourth another class shares it.
    for (int64_t row = 0; row < shape.rows(); row += 2) {
      logits[row * shape.stride + labels[row]] = 3.0f;
      if (row % 4 == 0) logits[row * shape.stride + shape.classes / 2] = 3.0f;
    }
    const StepInput step = {.count = shape.samples - 1, .gradient_scale = 0.5f, .leaving = 1};
    const Expectation expected = Expect(logits, labels, shape, step);
    const auto device = OnDevice<TypeParam>(logits);
    const DeviceArray<int32_t> device_labels(labels);
    DeviceArray<uint8_t> workspace(CrossEntropyWorkspace(shape));
    DeviceArray<LossSums> sums(1);
    DeviceArray<float> tail(kStepTailSize);
    TypeParam* no_gradient = nullptr;
    this->Finish(SoftmaxCrossEntropy(this->stream(), device.data(), device_labels.data(), shape,
                                     this->Step(step), workspace.data(), sums.data(), no_gradient));
    EXPECT_EQ(device.ReadFloats(), logits);
    const double allowed = expected.loss.loss_sum * Precision<TypeParam>() / 10;
    EXPECT_NEAR(sums.Read()[0].loss_sum, expected.loss.loss_sum, allowed);
    EXPECT_EQ(sums.Read()[0].correct, expected.loss.correct);

    this->Finish(SoftmaxCrossEntropy(this->stream(), device.data(), device_labels.data(), shape,
                                     this->Step(step), workspace.data(), sums.data(), device.data(),
                                     tail.data()));
    EXPECT_THAT(tail.Read(),
                ::testing::ElementsAre(static_cast<float>(sums.Read()[0].loss_sum) * 0.5f, 1.0f));
    EXPECT_NEAR(sums.Read()[0].loss_sum, expected.loss.loss_sum, allowed);
    EXPECT_EQ(sums.Read()[0].correct, expected.loss.correct);
    ExpectNear(device, expected.gradient);
  }
}

// The results of nn/loss.h, by the rows of the first step.count samples.
struct LossExpectation {
  LossSum sum;
  std::vector<float> gradient;
};

LossExpectation Expect(const Loss& loss, const LossInput& input, float scale) {
  LossExpectation expected = {SumLoss(loss, input), std::vector<float>(input.outputs.size())};
  LossGradient(loss, input, scale, absl::MakeSpan(expected.gradient));
  return expected;
}

TYPED_TEST(CudaLossTest, SmoothedIsTheCpus) {
  for (const LogitsShape shape :
       {LogitsShape{37, 1, 10, 10}, LogitsShape{6, 5, 72, 72}, LogitsShape{3, 2, 1001, 1001}}) {
    const auto logits = RandomValues<TypeParam>(shape.rows() * shape.stride, 1);
    const std::vector<int32_t> labels = SomeLabels(shape);
    const StepInput step = {.count = shape.samples - 1, .gradient_scale = 0.5f, .leaving = 1};
    const LossExpectation expected = Expect(
        CrossEntropyLoss{0.1},
        {logits, static_cast<int>(shape.classes), step.count * shape.rows_per_sample, labels},
        0.5f);
    const auto device = OnDevice<TypeParam>(logits);
    const DeviceArray<int32_t> device_labels(labels);
    DeviceArray<uint8_t> workspace(CrossEntropyWorkspace(shape));
    DeviceArray<float> terms(shape.rows()), tail(kStepTailSize);
    DeviceArray<LossSums> sums(1);
    const StepInput* device_step = this->Step(step);
    this->Finish(MeasureSmoothing(this->stream(), device.data(), device_labels.data(), shape, 0.1f,
                                  device_step, terms.data()));
    this->Finish(SoftmaxCrossEntropy(this->stream(), device.data(), device_labels.data(), shape,
                                     device_step, workspace.data(), sums.data(), device.data(),
                                     tail.data()));
    this->Finish(AddSmoothing(this->stream(), terms.data(), device_labels.data(), shape, 0.1f,
                              {device_step, sums.data(), tail.data()}, device.data()));
    const double allowed = expected.sum.loss_sum * Precision<TypeParam>() / 10;
    EXPECT_NEAR(sums.Read()[0].loss_sum, expected.sum.loss_sum, allowed);
    EXPECT_EQ(sums.Read()[0].correct, expected.sum.correct);
    EXPECT_THAT(tail.Read(),
                ::testing::ElementsAre(static_cast<float>(sums.Read()[0].loss_sum) * 0.5f, 1.0f));
    ExpectNear(device, expected.gradient);
  }
}

TYPED_TEST(CudaLossTest, LossesOfOutputsAreTheCpus) {
  struct Case {
    OutputLossKind kind;
    Loss loss;
  };
  const Case cases[] = {{OutputLossKind::kMse, MseLoss()},
                        {OutputLossKind::kL1, L1Loss()},
                        {OutputLossKind::kBce, BceLoss()},
                        {OutputLossKind::kNorm, NormLoss()}};
  for (const Case& each : cases) {
    for (const OutputLossShape shape :
         {OutputLossShape{5, 1}, OutputLossShape{6, 7}, OutputLossShape{30, 1000}}) {
      const auto outputs = RandomValues<TypeParam>(shape.size(), 1);
      std::vector<float> targets = RandomValues<TypeParam>(shape.size(), 2);
      for (float& target : targets) target = std::abs(target);
      targets[0] = each.kind == OutputLossKind::kBce ? targets[0] : outputs[0];  // no distance
      const StepInput step = {.count = shape.samples - 1, .gradient_scale = 0.5f, .leaving = 1};
      const LossExpectation expected = Expect(each.loss,
                                              {.outputs = outputs,
                                               .columns = static_cast<int>(shape.columns),
                                               .rows = step.count,
                                               .targets = targets},
                                              0.5f);
      const auto device = OnDevice<TypeParam>(outputs);
      const auto device_targets = OnDevice<float>(targets);
      DeviceArray<uint8_t> workspace(OutputLossWorkspace(shape));
      DeviceArray<LossSums> sums(1);
      DeviceArray<float> tail(kStepTailSize);
      TypeParam* no_gradient = nullptr;
      this->Finish(OutputLoss(this->stream(), each.kind, device.data(), device_targets.data(),
                              shape, this->Step(step), workspace.data(), sums.data(), no_gradient));
      EXPECT_EQ(device.ReadFloats(), outputs);
      const double allowed = 1e-5 * expected.sum.loss_sum;
      EXPECT_NEAR(sums.Read()[0].loss_sum, expected.sum.loss_sum, allowed);
      this->Finish(OutputLoss(this->stream(), each.kind, device.data(), device_targets.data(),
                              shape, this->Step(step), workspace.data(), sums.data(), device.data(),
                              tail.data()));
      EXPECT_NEAR(sums.Read()[0].loss_sum, expected.sum.loss_sum, allowed);
      EXPECT_EQ(sums.Read()[0].correct, 0);
      EXPECT_THAT(tail.Read(),
                  ::testing::ElementsAre(static_cast<float>(sums.Read()[0].loss_sum) * 0.5f, 1.0f));
      ExpectNear(device, expected.gradient);
    }
  }
}

TYPED_TEST(CudaLossTest, ATargetThatIsNoProbabilityGivesNan) {
  const auto device = OnDevice<TypeParam>({0.5f});
  const auto target = OnDevice<float>({1.5f});
  DeviceArray<uint8_t> workspace(OutputLossWorkspace({1, 1}));
  DeviceArray<LossSums> sums(1);
  this->Finish(OutputLoss(this->stream(), OutputLossKind::kBce, device.data(), target.data(),
                          {1, 1}, this->Step({.count = 1}), workspace.data(), sums.data(),
                          device.data()));
  EXPECT_TRUE(std::isnan(sums.Read()[0].loss_sum));
}

TYPED_TEST(CudaLossTest, NoSampleGivesNothing) {
  const LogitsShape shape = {2, 1, 10, 10};
  const auto device = OnDevice<TypeParam>(RandomValues<TypeParam>(20, 1));
  const DeviceArray<int32_t> labels(std::vector<int32_t>{1, 2});
  DeviceArray<uint8_t> workspace(CrossEntropyWorkspace(shape));
  DeviceArray<LossSums> sums(1);
  this->Finish(SoftmaxCrossEntropy(this->stream(), device.data(), labels.data(), shape,
                                   this->Step({.count = 0, .gradient_scale = 1}), workspace.data(),
                                   sums.data(), device.data()));
  EXPECT_EQ(sums.Read()[0].loss_sum, 0);
  EXPECT_EQ(sums.Read()[0].correct, 0);
  EXPECT_EQ(device.ReadFloats(), std::vector<float>(20));
}

}  // namespace
}  // namespace dp::engine::cuda
