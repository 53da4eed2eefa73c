// Local SGD. Training::Run expects the same bits on all ranks.

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/testing/training.h"

namespace dp::trainer {
namespace {

// Rounds of three steps; an epoch has five.
TrainingPlan LocalPlan() {
  TrainingPlan plan = APlan();
  plan.layers.insert(plan.layers.begin() + 1, {.name = "", .kind = model::BatchNorm{}});
  plan.local_sgd = {.sync_every = 3};
  return plan;
}

// Every round ends in the mean of the ranks' weights.
LocalSgdPlan MeanOfRanks(int64_t sync_every) {
  return {.sync_every = sync_every,
          .outer = {.learning_rate = 1, .momentum = 0, .nesterov = false}};
}

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << i;
}

std::vector<v1::Metric> Rounds(const Training& training) {
  std::vector<v1::Metric> rounds;
  for (const v1::Metric& metric : training.metrics())
    if (metric.event() == "step") rounds.push_back(metric);
  return rounds;
}

// Plain SGD has no state that could differ. The last step of an epoch has two samples, so that some
// of the ranks have none.
TEST(LocalSgdTest, RoundsOfOneStepAndTheMeanAreDdpUpToRounding) {
  TrainingPlan ddp = LocalPlan();
  ddp.local_sgd.reset();
  ddp.optimizer = engine::SgdOptions{.learning_rate = 0.05};
  TrainingPlan local = ddp;
  local.local_sgd = MeanOfRanks(1);
  for (const int world_size : {1, 2, 3}) {
    Training one("train_local_test_ddp"), other("train_local_test");
    const auto expected = one.Run({.plan = ddp, .world_size = world_size});
    ExpectNear(other.Run({.plan = local, .world_size = world_size}).weights, expected.weights);
    const auto losses = Rounds(one), rounds = Rounds(other);
    ASSERT_EQ(rounds.size(), losses.size());
    for (size_t i = 0; i < rounds.size(); ++i)
      EXPECT_NEAR(rounds[i].loss(), losses[i].loss(), 1e-5) << i;
  }
}

TEST(LocalSgdTest, ARankAloneTrainsAsWithoutRounds) {
  TrainingPlan plain = LocalPlan(), local = plain;
  plain.local_sgd.reset();
  local.local_sgd = MeanOfRanks(4);
  Training one("train_local_test_plain"), other("train_local_test");
  ExpectNear(other.Run({.plan = local, .world_size = 1}).weights,
             one.Run({.plan = plain, .world_size = 1}).weights);
}

TEST(LocalSgdTest, RoundsAndTheOuterOptimizerChangeTheTraining) {
  TrainingPlan mean = LocalPlan(), every_step = LocalPlan();
  mean.local_sgd = MeanOfRanks(3);
  every_step.local_sgd->sync_every = 1;
  const auto weights = [](const TrainingPlan& plan) {
    return Training("train_local_test").Run({.plan = plan}).weights;
  };
  const std::vector<float> local = weights(LocalPlan());
  EXPECT_TRUE(SameBits(local, weights(LocalPlan())));
  EXPECT_FALSE(SameBits(local, weights(mean)));
  EXPECT_FALSE(SameBits(local, weights(every_step)));
}

TEST(LocalSgdTest, ARoundEndsWithItsEpochAndIsReportedAsAWhole) {
  Training training("train_local_test");
  training.Run({.plan = LocalPlan()});
  const auto rounds = Rounds(training);
  std::vector<int> steps, samples;
  std::vector<double> shares;
  for (const v1::Metric& round : rounds) {
    steps.push_back(round.step());
    samples.push_back(round.samples());
    shares.push_back(round.reduced_bytes_per_step() / round.ddp_bytes_per_step());
  }
  EXPECT_THAT(steps, ::testing::ElementsAre(3, 5, 8, 10));
  EXPECT_THAT(samples, ::testing::ElementsAre(36, 14, 36, 14));
  EXPECT_THAT(shares, ::testing::ElementsAre(1. / 3, 0.5, 1. / 3, 0.5));
  const v1::Metric end = training.metrics().back();
  EXPECT_EQ(end.step(), 10);
}

TEST(LocalSgdTest, TheLastStepEndsTheRound) {
  TrainingPlan plan = LocalPlan();
  plan.steps_max = 7;
  Training training("train_local_test");
  training.Run({.plan = plan});
  EXPECT_EQ(Rounds(training).back().step(), 7);
}

// Checkpoints are made at the first end of a round at or after the step where they are due.
TEST(LocalSgdTest, EveryPlaceToGoOnFromGivesTheBitsOfAnUndisturbedRun) {
  for (const bool adamw : {false, true}) {
    const auto until = [adamw](int64_t step) {
      TrainingPlan plan = LocalPlan();
      plan.epochs = 3;
      plan.steps_max = step;
      if (adamw) plan.optimizer = engine::AdamWOptions{.learning_rate = 0.01};
      return plan;
    };
    Training undisturbed("train_local_test_undisturbed");
    const std::vector<float> expected = undisturbed.Run({.plan = until(0)}).weights;
    for (const int64_t stop : {3, 5, 8, 10, 13}) {
      Training training("train_local_test");
      training.Run({.plan = until(stop), .every_steps = 2});
      ASSERT_EQ(training.coordinator.on_record.front().step(), stop);
      const auto outcome = training.Run({.plan = until(0), .every_steps = 2});
      EXPECT_TRUE(SameBits(outcome.weights, expected)) << stop;
    }
  }
}

// An evaluation decides on the best checkpoint, when the round has ended.
TEST(LocalSgdTest, TheBestCheckpointHasTheOptimizersOfAllRanks) {
  TrainingPlan plan = LocalPlan(), begun = plan;
  plan.checkpoint.best = begun.checkpoint.best = WatchedMetric::kLoss;
  begun.steps_max = 8;
  Training undisturbed("train_local_test_undisturbed"), training("train_local_test");
  const auto expected = undisturbed.Run({.plan = plan});
  training.Run({.plan = begun, .every_steps = 100});
  std::vector<v1::Checkpoint>& on_record = training.coordinator.on_record;
  while (on_record.size() > 1) on_record.erase(on_record.begin());
  ASSERT_EQ(on_record.front().step(), 5);
  const auto outcome = training.Run({.plan = plan, .every_steps = 100});
  EXPECT_TRUE(SameBits(outcome.weights, expected.weights));
}

TEST(LocalSgdTest, RanksThatAreAskedToLeaveDoSoAfterTheRoundAndItIsSaved) {
  Training undisturbed("train_local_test_undisturbed"), training("train_local_test");
  const auto expected = undisturbed.Run({.plan = LocalPlan()});
  const auto left = training.Run({.plan = LocalPlan(), .every_steps = 100, .leave_at = 2});
  EXPECT_EQ(left.end, TrainingEnd::kHandedOver);
  EXPECT_EQ(training.coordinator.on_record.front().step(), 3);
  const auto outcome = training.Run({.plan = LocalPlan(), .every_steps = 100});
  EXPECT_TRUE(SameBits(outcome.weights, expected.weights));
}

TEST(LocalSgdTest, AnotherNumberOfRanksGoesOn) {
  TrainingPlan begun = LocalPlan();
  begun.steps_max = 5;
  for (const int world_size : {1, 2, 4}) {
    Training training("train_local_test");
    training.Run({.plan = begun, .world_size = 3, .every_steps = 5});
    const auto outcome =
        training.Run({.plan = LocalPlan(), .world_size = world_size, .every_steps = 5});
    EXPECT_EQ(outcome.status, absl::OkStatus());
    EXPECT_EQ(Rounds(training).back().step(), 10);
  }
}

TEST(LocalSgdTest, ACheckpointOfAnotherStrategyIsRefused) {
  TrainingPlan ddp = LocalPlan();
  ddp.local_sgd.reset();
  ddp.steps_max = 5;
  Training training("train_local_test");
  training.Run({.plan = ddp, .every_steps = 5});
  const auto outcome = training.Run({.plan = LocalPlan(), .every_steps = 5});
  EXPECT_TRUE(absl::IsFailedPrecondition(outcome.status));
  EXPECT_THAT(std::string(outcome.status.message()), ::testing::HasSubstr("train.strategy"));
}

TEST(LocalSgdTest, ALossThatIsNoNumberEndsAllRanksAtTheRound) {
  TrainingPlan plan = LocalPlan();
  plan.layers.erase(plan.layers.begin() + 1);
  plan.optimizer = engine::SgdOptions{.learning_rate = 1e30};
  const auto outcome = Training("train_local_test").Run({.plan = plan});
  EXPECT_TRUE(absl::IsOutOfRange(outcome.status)) << outcome.status;
}

}  // namespace
}  // namespace dp::trainer
