// An interrupted and resumed training takes the same steps, with the same bits, as an undisturbed
// one.

#include "worker/trainer/checkpoint/resume.h"

#include <filesystem>
#include <fstream>
#include <map>

#include "gmock/gmock.h"
#include "worker/trainer/testing/training.h"

namespace dp::trainer {
namespace {

using ::testing::HasSubstr;

// Three epochs of five steps, with a short last step, dropout and momentum.
TrainingPlan WithDropout() {
  TrainingPlan plan = APlan();
  plan.epochs = 3;
  plan.layers.insert(plan.layers.begin() + 3, {.name = "", .kind = model::Dropout{0.3}});
  return plan;
}

TrainingPlan Until(int64_t step) {
  TrainingPlan plan = WithDropout();
  plan.steps_max = step;
  return plan;
}

// The loss of each step, as last reported.
std::map<int, double> History(const Training& training) {
  std::map<int, double> losses;
  for (const v1::Metric& metric : training.metrics()) {
    if (metric.event() == "step") losses[metric.step()] = metric.loss();
  }
  return losses;
}

// Damages the newest checkpoint on record, or one so many before it.
void Damage(const Training& training, const std::string& file, size_t before = 0) {
  std::fstream stream(training.coordinator.on_record[before].path() + "/" + file,
                      std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(200);
  stream.put('\x7f');
}

TEST(ResumeTest, EveryPlaceToGoOnFromGivesTheBitsOfAnUndisturbedRun) {
  for (const int world_size : {3, 4}) {
    Training undisturbed("resume_test_undisturbed");
    const auto expected = undisturbed.Run({WithDropout(), world_size});
    for (const int64_t step : {1, 4, 5, 6, 14, 15}) {
      Training training("resume_test");
      ASSERT_TRUE(training.Run({Until(step), world_size, step}).status.ok());
      const auto outcome = training.Run({WithDropout(), world_size, 100});
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_TRUE(SameBits(outcome.weights, expected.weights)) << world_size << " ranks, " << step;
      EXPECT_EQ(History(training), History(undisturbed));
    }
  }
}

TEST(ResumeTest, AdamWGoesOnWithItsMomentsAndItsCountOfSteps) {
  const auto with_adamw = [](TrainingPlan plan) {
    plan.optimizer = engine::AdamWOptions{.learning_rate = 0.01};
    return plan;
  };
  Training undisturbed("resume_test_undisturbed"), training("resume_test");
  const auto expected = undisturbed.Run({with_adamw(WithDropout())});
  ASSERT_TRUE(training.Run({with_adamw(Until(7)), 3, 7}).status.ok());
  const auto outcome = training.Run({with_adamw(WithDropout()), 3, 100});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_TRUE(SameBits(outcome.weights, expected.weights));
  EXPECT_EQ(History(training), History(undisturbed));
}

TEST(ResumeTest, TheAverageOfTheWeightsGoesOn) {
  const auto averaging = [](TrainingPlan plan) {
    plan.average_decay = 0.9;
    return plan;
  };
  const auto evaluations = [](const Training& training) {
    std::map<int, double> losses;
    for (const v1::Metric& metric : training.metrics())
      if (metric.event() == "eval") losses[metric.step()] = metric.loss();
    return losses;
  };
  Training undisturbed("resume_test_undisturbed"), plain("resume_test_plain"),
      training("resume_test");
  const auto expected = undisturbed.Run({averaging(WithDropout())});
  EXPECT_TRUE(SameBits(plain.Run({WithDropout()}).weights, expected.weights));
  EXPECT_NE(evaluations(plain), evaluations(undisturbed));
  ASSERT_TRUE(training.Run({averaging(Until(7)), 3, 7}).status.ok());
  const auto outcome = training.Run({averaging(WithDropout()), 3, 100});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_TRUE(SameBits(outcome.weights, expected.weights));
  EXPECT_EQ(evaluations(training).at(15), evaluations(undisturbed).at(15));
}

// Epochs of four steps over passes of five.
TEST(ResumeTest, EpochsOfSomeStepsGoOnAtTheirPlaceInTheData) {
  const auto plan_until = [](int64_t step) {
    TrainingPlan plan = Until(step);
    plan.epochs = 4;
    plan.steps_per_epoch = 4;
    plan.schedule = {.warmup_steps = 6, .decay = engine::StepDecay{.every_epochs = 1}};
    return plan;
  };
  Training undisturbed("resume_test_undisturbed");
  const auto expected = undisturbed.Run({plan_until(0)});
  for (const int64_t step : {3, 4, 5, 8, 11}) {
    Training training("resume_test");
    ASSERT_TRUE(training.Run({plan_until(step), 3, step}).status.ok());
    const auto outcome = training.Run({plan_until(0), 3, 100});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_TRUE(SameBits(outcome.weights, expected.weights)) << step;
    EXPECT_EQ(History(training), History(undisturbed));
  }
}

TEST(ResumeTest, AChainOfGenerationsGivesTheBitsOfAnUndisturbedRun) {
  Training undisturbed("resume_test_undisturbed");
  const auto expected = undisturbed.Run({WithDropout()});
  Training training("resume_test");
  for (const int64_t step : {2, 3, 9, 11}) training.Run({Until(step), 3, 2});
  EXPECT_TRUE(SameBits(training.Run({WithDropout(), 3, 2}).weights, expected.weights));
  EXPECT_EQ(History(training), History(undisturbed));
}

TEST(ResumeTest, RanksThatAreAskedToLeaveDoSoAfterOneStepAndItIsSaved) {
  Training undisturbed("resume_test_undisturbed");
  const auto expected = undisturbed.Run({WithDropout()});
  Training training("resume_test");
  const auto left = training.Run({WithDropout(), 3, 100, /*leave_at=*/7});
  EXPECT_EQ(left.end, TrainingEnd::kHandedOver);
  ASSERT_EQ(training.coordinator.on_record.size(), 1u);
  EXPECT_EQ(training.coordinator.on_record[0].step(), 7);
  EXPECT_TRUE(SameBits(training.Run({WithDropout(), 3, 100}).weights, expected.weights));
}

TEST(ResumeTest, TheEpochThatWasBrokenOffTellsItsWholeLoss) {
  const auto epochs = [](const Training& training) {
    std::map<int, double> losses;
    for (const v1::Metric& metric : training.metrics()) {
      if (metric.event() == "epoch") losses[metric.epoch()] = metric.loss();
    }
    return losses;
  };
  Training undisturbed("resume_test_undisturbed"), training("resume_test");
  undisturbed.Run({WithDropout()});
  training.Run({WithDropout(), 3, 100, /*leave_at=*/7});
  training.Run({WithDropout(), 3, 100});
  EXPECT_EQ(epochs(training), epochs(undisturbed));
}

TEST(ResumeTest, ADamagedCheckpointIsSkippedForTheOneBefore) {
  Training undisturbed("resume_test_undisturbed");
  const auto expected = undisturbed.Run({WithDropout()});
  for (const char* file : {"manifest.json", "model.safetensors", "optimizer.safetensors"}) {
    Training training("resume_test");
    training.Run({Until(8), 3, 4});
    Damage(training, file);
    const auto outcome = training.Run({WithDropout(), 3, 100});
    EXPECT_TRUE(SameBits(outcome.weights, expected.weights)) << file;
    for (const v1::Metric& metric : training.metrics()) {
      if (metric.event() != "resume") continue;
      EXPECT_EQ(metric.step(), 4);
      EXPECT_THAT(metric.message(), HasSubstr("went back: no rank can read"));
    }
  }
}

TEST(ResumeTest, HowManyCheckpointsWereSkippedIsReported) {
  Training training("resume_test");
  for (const int64_t step : {4, 8, 12}) {
    training.Run({.plan = Until(step), .every_steps = step, .keep = 3});
  }
  ASSERT_EQ(training.coordinator.on_record.size(), 3u);
  const std::string newest = training.coordinator.on_record[0].path();
  for (const size_t before : {0, 1}) Damage(training, "model.safetensors", before);
  EXPECT_TRUE(training.Run({WithDropout(), 3, 100}).status.ok());
  std::string message;
  for (const v1::Metric& metric : training.metrics()) {
    if (metric.event() == "resume") message = metric.message();
  }
  EXPECT_THAT(message, HasSubstr("went back: no rank can read " + newest + " and 1 more"));
}

TEST(ResumeTest, WhereNoneCanBeReadTheTrainingDoesNotBeginAnew) {
  Training training("resume_test");
  training.Run({Until(8), 3, 4});
  std::filesystem::remove_all(training.directory());
  const absl::Status status = training.Run({WithDropout()}).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("no rank can read any of the 2 checkpoints"));
}

TEST(ResumeTest, ATrainingKeepsTheOrderOfItsSums) {
  using engine::ReduceOrder;
  Training by_tree("resume_test_tree"), in_rank_order("resume_test_rank"), training("resume_test");
  const auto tree = by_tree.Run({WithDropout(), 4});
  const auto expected =
      in_rank_order.Run({.plan = WithDropout(), .world_size = 4, .sum_order = ReduceOrder::kRank});
  EXPECT_FALSE(SameBits(tree.weights, expected.weights));
  // Generation 2 goes on from a checkpoint of generation 1, and generation 3 from one of its own.
  training.Run(
      {.plan = Until(3), .world_size = 4, .every_steps = 3, .sum_order = ReduceOrder::kRank});
  training.Run({Until(7), 4, 7});
  const auto outcome = training.Run({WithDropout(), 4, 100});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_TRUE(SameBits(outcome.weights, expected.weights));
}

TEST(ResumeTest, AnotherNumberOfRanksGoesOnWithOtherBitsAndSaysSo) {
  Training training("resume_test");
  training.Run({Until(8), 3, 8});
  EXPECT_TRUE(training.Run({WithDropout(), 2}).status.ok());
  for (const v1::Metric& metric : training.metrics()) {
    if (metric.event() != "resume") continue;
    EXPECT_THAT(metric.message(), HasSubstr("ranks was 3 and is 2"));
  }
  EXPECT_EQ(History(training).size(), 15u);
}

// Losses differ by rounding, because the sums are taken in another order.
TEST(ResumeTest, GenerationsOfOtherSizesTrainTheSameGlobalBatchesOnce) {
  Training undisturbed("resume_test_undisturbed"), training("resume_test");
  undisturbed.Run({WithDropout(), 3});
  training.Run({WithDropout(), 3, 100, /*leave_at=*/4});
  training.Run({WithDropout(), 2, 100, /*leave_at=*/9});
  ASSERT_TRUE(training.Run({WithDropout(), 4, 100}).status.ok());
  const std::map<int, double> expected = History(undisturbed), history = History(training);
  ASSERT_EQ(history.size(), expected.size());
  for (const auto& [step, loss] : expected) EXPECT_NEAR(history.at(step), loss, 1e-4) << step;
}

TEST(ResumeTest, AnotherModelOrOrderOfSamplesIsRefusedOnEveryRank) {
  Training training("resume_test");
  training.Run({Until(8), 3, 8});
  TrainingPlan wider = WithDropout();
  wider.layers[0].kind = model::Conv2d{.out = 5, .kernel = 3, .padding = 1};
  EXPECT_THAT(training.Run({wider}).status.message(), HasSubstr("the tensor"));
  TrainingPlan seeded = WithDropout();
  seeded.seed = 4;
  EXPECT_THAT(training.Run({seeded}).status.message(),
              HasSubstr("train.seed 3, and this job has 4"));
}

// Ten epochs, but only the first evaluation is an improvement.
TrainingPlan StoppingEarly() {
  TrainingPlan plan = WithDropout();
  plan.epochs = 10;
  plan.early_stop = EarlyStopPlan{.patience = 2, .min_delta = 100};
  return plan;
}

std::vector<v1::Metric> Events(const Training& training, const std::string& event) {
  std::vector<v1::Metric> events;
  for (const v1::Metric& metric : training.metrics()) {
    if (metric.event() == event) events.push_back(metric);
  }
  return events;
}

TEST(ResumeTest, ATrainingStopsEarlyWhereItWouldHaveStopped) {
  Training undisturbed("resume_test_undisturbed");
  const auto expected = undisturbed.Run({StoppingEarly()});
  EXPECT_EQ(History(undisturbed).size(), 15u);  // three evaluations
  ASSERT_EQ(Events(undisturbed, "early_stop").size(), 1u);
  EXPECT_THAT(Events(undisturbed, "early_stop")[0].message(), HasSubstr("in 2 evaluations"));
  // Within an epoch, at the end of one, and at the end.
  for (const int64_t step : {2, 5, 7, 10, 15}) {
    Training training("resume_test");
    TrainingPlan until = StoppingEarly();
    until.steps_max = step;
    ASSERT_TRUE(training.Run({until, 3, step}).status.ok());
    const auto outcome = training.Run({StoppingEarly(), 3, 100});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_TRUE(SameBits(outcome.weights, expected.weights)) << step;
    EXPECT_EQ(History(training), History(undisturbed)) << step;
  }
}

TEST(ResumeTest, TheWeightsOfTheBestCheckpointAreTakenOnEveryRank) {
  TrainingPlan plan = WithDropout();
  plan.checkpoint.best = WatchedMetric::kLoss;
  // Later epochs are worse.
  plan.schedule = {.decay = engine::StepDecay{.every_epochs = 1, .factor = 30}};
  TrainingPlan first_epoch = plan;
  first_epoch.steps_max = 5;
  const auto expected = Training("resume_test_first").Run({first_epoch});
  plan.weights_of_best = true;
  Training training("resume_test");
  const auto outcome = training.Run({.plan = plan, .every_steps = 4, .keep = 1});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_TRUE(SameBits(outcome.weights, expected.weights));
  EXPECT_EQ(Events(training, "best_checkpoint").size(), 1u);
  // After the end, too, the best is on disk beside the latest.
  ASSERT_EQ(training.coordinator.on_record.size(), 2u);
  EXPECT_THAT(training.coordinator.on_record.back().best(), HasSubstr("loss "));
  const auto again = training.Run({.plan = plan, .every_steps = 4, .keep = 1});
  EXPECT_TRUE(SameBits(again.weights, expected.weights));
}

TEST(CheckSomethingLeftTest, ATrainingThatHasStoppedEarlyIsOver) {
  const EarlyStopPlan stop = {.patience = 2};
  const Position stopped = {.step = 5, .early_stop = {.best = 0.5, .without = 2, .last_step = 5}};
  EXPECT_THAT(CheckSomethingLeft(stopped, 40, stop).message(),
              HasSubstr("has stopped early at step 5: loss of the test set"));
  EXPECT_TRUE(CheckSomethingLeft(stopped, 40).ok());
  EXPECT_TRUE(CheckSomethingLeft(stopped, 40, EarlyStopPlan{.patience = 3}).ok());
}

TEST(CheckSomethingLeftTest, ACheckpointOfTheEndOrPastItLeavesNothing) {
  EXPECT_TRUE(CheckSomethingLeft({.step = 39}, 40).ok());
  EXPECT_FALSE(CheckSomethingLeft({.step = 40}, 40).ok());
  EXPECT_THAT(CheckSomethingLeft({.step = 40}, 30).message(),
              ::testing::HasSubstr("is of step 40, and the job ends after step 30"));
}

}  // namespace
}  // namespace dp::trainer
