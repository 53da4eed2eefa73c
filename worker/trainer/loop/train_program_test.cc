// Ranks with a step program: the same steps, checkpoints and errors as without one.

#include <map>

#include "gmock/gmock.h"
#include "worker/trainer/testing/training.h"

namespace dp::trainer {
namespace {

using Program = Training::Options::Program;

TrainingPlan ProgramPlan(int64_t steps_max = 0) {
  TrainingPlan plan = APlan();
  plan.epochs = 3;
  plan.steps_max = steps_max;
  plan.layers.insert(plan.layers.begin() + 3, {.name = "", .kind = model::Dropout{0.3}});
  plan.optimizer = engine::AdamWOptions{.learning_rate = 0.01};
  return plan;
}

std::map<int, double> LossesOf(const Training& training) {
  std::map<int, double> losses;
  for (const v1::Metric& metric : training.metrics()) {
    if (metric.event() == "step") losses[metric.step()] = metric.loss();
  }
  return losses;
}

Training::Options Alone(const TrainingPlan& plan, Program program, int64_t every_steps = 0) {
  return {.plan = plan, .world_size = 1, .every_steps = every_steps, .program = program};
}

TEST(TrainProgramTest, TakesTheStepsOfARankWithoutOne) {
  Training by_parts("train_program_test_parts");
  const auto expected = by_parts.Run(Alone(ProgramPlan(), Program::kNone));
  for (const Program program : {Program::kOfBatches, Program::kWithData}) {
    Training training("train_program_test");
    const auto outcome = training.Run(Alone(ProgramPlan(), program));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_TRUE(SameBits(outcome.weights, expected.weights));
    EXPECT_EQ(LossesOf(training), LossesOf(by_parts));
    EXPECT_EQ(LossesOf(training).size(), 15u);
  }
}

TEST(TrainProgramTest, RanksThatMeetTakeTheStepsOfTheirParts) {
  Training by_parts("train_program_test_parts");
  const auto expected = by_parts.Run({.plan = ProgramPlan()});
  for (const Program program : {Program::kOfBatches, Program::kWithData}) {
    Training training("train_program_test");
    const auto outcome = training.Run({.plan = ProgramPlan(), .program = program});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_TRUE(SameBits(outcome.weights, expected.weights));
    EXPECT_EQ(LossesOf(training), LossesOf(by_parts));
  }
}

TEST(TrainProgramTest, EpochsOfSomeStepsGoOnThroughTheData) {
  TrainingPlan plan = ProgramPlan();
  plan.epochs = 4;
  plan.steps_per_epoch = 3;
  Training by_parts("train_program_test_parts"), training("train_program_test");
  const auto expected = by_parts.Run({.plan = plan});
  const auto outcome = training.Run({.plan = plan, .program = Program::kWithData});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_TRUE(SameBits(outcome.weights, expected.weights));
  EXPECT_EQ(LossesOf(training), LossesOf(by_parts));
  EXPECT_EQ(LossesOf(training).size(), 12u);
}

// Rank 0 drains its steps to save, so it sees the request at another time than its peers.
TEST(TrainProgramTest, RanksThatMeetLeaveAfterTheSameStep) {
  // Two more steps are in flight when the request becomes known. None is at an epoch's end, after
  // five steps.
  struct Case {
    int64_t leave_at, saved;
  };
  for (const auto& [leave_at, saved] :
       {Case{1, 3}, Case{2, 4}, Case{4, 5}, Case{5, 5}, Case{6, 8}, Case{9, 10}}) {
    Training undisturbed("train_program_test_undisturbed"), training("train_program_test");
    const auto expected = undisturbed.Run({.plan = ProgramPlan(), .program = Program::kWithData});
    const auto left = training.Run({.plan = ProgramPlan(),
                                    .every_steps = 3,
                                    .leave_at = leave_at,
                                    .program = Program::kWithData});
    ASSERT_TRUE(left.status.ok()) << left.status;
    EXPECT_EQ(left.end, TrainingEnd::kHandedOver);
    EXPECT_EQ(training.coordinator.on_record.front().step(), saved) << leave_at;
    const auto outcome = training.Run({.plan = ProgramPlan(), .program = Program::kWithData});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_TRUE(SameBits(outcome.weights, expected.weights)) << leave_at;
    EXPECT_EQ(LossesOf(training), LossesOf(undisturbed));
  }
}

TEST(TrainProgramTest, StopsAtTheLastStepOfThePlan) {
  Training training("train_program_test");
  ASSERT_TRUE(training.Run(Alone(ProgramPlan(7), Program::kWithData)).status.ok());
  EXPECT_EQ(LossesOf(training).size(), 7u);
}

TEST(TrainProgramTest, ACheckpointHoldsTheWeightsOfItsStep) {
  Training undisturbed("train_program_test_parts");
  const auto expected = undisturbed.Run(Alone(ProgramPlan(), Program::kNone));
  for (const int64_t step : {1, 4, 5, 6, 14}) {
    Training training("train_program_test");
    ASSERT_TRUE(training.Run(Alone(ProgramPlan(step), Program::kOfBatches, step)).status.ok());
    const auto outcome = training.Run(Alone(ProgramPlan(), Program::kWithData, 100));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_TRUE(SameBits(outcome.weights, expected.weights)) << step;
    EXPECT_EQ(LossesOf(training), LossesOf(undisturbed));
  }
}

// The training ends while the program has begun steps beyond the saved one.
TEST(TrainProgramTest, ACheckpointOnTheWayHoldsTheWeightsOfItsStep) {
  Training undisturbed("train_program_test_parts");
  const auto expected = undisturbed.Run(Alone(ProgramPlan(), Program::kNone));
  Training training("train_program_test");
  TrainingPlan broken_off = ProgramPlan();
  const auto left = training.Run({.plan = broken_off,
                                  .world_size = 1,
                                  .every_steps = 4,
                                  .leave_at = 6,
                                  .program = Program::kWithData});
  ASSERT_TRUE(left.status.ok()) << left.status;
  EXPECT_EQ(left.end, TrainingEnd::kHandedOver);
  EXPECT_LT(LossesOf(training).size(), 15u);
  const auto outcome = training.Run(Alone(ProgramPlan(), Program::kWithData, 100));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_TRUE(SameBits(outcome.weights, expected.weights));
  EXPECT_EQ(LossesOf(training), LossesOf(undisturbed));
}

TEST(TrainProgramTest, ALossThatIsNoNumberEndsTheTrainingBeforeWhatItSpoiltIsSaved) {
  TrainingPlan plan = ProgramPlan();
  plan.optimizer = engine::SgdOptions{.learning_rate = 1e30f};
  Training training("train_program_test");
  const auto outcome = training.Run(Alone(plan, Program::kOfBatches, 4));
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kOutOfRange) << outcome.status;
  EXPECT_THAT(std::string(outcome.status.message()),
              ::testing::ContainsRegex("the loss is -?(nan|inf) at step [1-4]"));
  EXPECT_TRUE(training.coordinator.on_record.empty());
}

}  // namespace
}  // namespace dp::trainer
