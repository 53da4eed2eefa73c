#include "worker/trainer/model/training_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/trainer/testing/training.h"

namespace dp::trainer {
namespace {

using ::testing::HasSubstr;

// A data set of which only the form matters.
class Form : public engine::Dataset {
 public:
  Form(model::Shape shape, int classes, model::Shape targets = {})
      : shape_(std::move(shape)), classes_(classes), targets_(std::move(targets)) {}

  int64_t size() const override { return 10; }
  const model::Shape& sample_shape() const override { return shape_; }
  int classes() const override { return classes_; }
  model::Shape target_shape() const override { return targets_; }
  void Gather(absl::Span<const int64_t>, absl::Span<float>, absl::Span<int32_t>) const override {}

 private:
  const model::Shape shape_;
  const int classes_;
  const model::Shape targets_;
};

TrainingPlan PlanWith(int outputs, const engine::Loss& loss) {
  TrainingPlan plan = APlan();
  plan.layers = {{"out", model::Linear{.out = outputs}}};
  plan.loss = loss;
  return plan;
}

std::string ErrorOf(const TrainingPlan& plan, const Form& train, const Form& test) {
  const Datasets data = {std::make_unique<Form>(train), std::make_unique<Form>(test)};
  return std::string(FitTraining(plan, data).status().message());
}

TEST(TrainingFitTest, TheTestMayHaveNoClassThatTheModelLacks) {
  const TrainingPlan plan = PlanWith(4, engine::CrossEntropyLoss());
  EXPECT_EQ(ErrorOf(plan, Form({3}, 4), Form({3}, 4)), "");
  EXPECT_THAT(ErrorOf(plan, Form({3}, 4), Form({3}, 6)),
              HasSubstr("the test has labels up to 5, but the model gives 4 values"));
}

TEST(TrainingFitTest, ANormTakesOutputsOfAnyNumber) {
  EXPECT_EQ(ErrorOf(PlanWith(1, engine::NormLoss()), Form({3}, 10), Form({3}, 10)), "");
}

TEST(TrainingFitTest, BothSetsHaveTheSameShapes) {
  const TrainingPlan plan = PlanWith(2, engine::MseLoss());
  const Form train({3}, 0, {2});
  EXPECT_EQ(ErrorOf(plan, train, train), "");
  EXPECT_EQ(ErrorOf(plan, train, Form({4}, 0, {2})),
            "samples of the test have the shape 4, those for training 3; give sets of one shape");
  EXPECT_EQ(ErrorOf(plan, train, Form({3}, 0, {1})),
            "targets of the test have the shape 1, those for training 2; give sets of one shape");
}

TEST(TrainingFitTest, OneOutputIsNeededForEachTarget) {
  const Form train({3}, 0, {2});
  EXPECT_THAT(ErrorOf(PlanWith(3, engine::MseLoss()), train, train),
              HasSubstr("gives 3, but each sample has 2 targets"));
}

}  // namespace
}  // namespace dp::trainer
