#include "server/parameters/core/gradient_table.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/reduce/ordered_reduce.h"
#include "worker/engine/nn/host_optimizer.h"

namespace dp::server {
namespace {

using ::testing::HasSubstr;
using Verdict = GradientTable::Verdict;

// A table of four values and a tail of one float; plain SGD with a rate of 1.
TableOptions Options(TableMode mode, int ranks, int max_staleness = 0) {
  TableOptions options = {.mode = mode,
                          .ranks = ranks,
                          .max_staleness = max_staleness,
                          .publish_every = 1'000,
                          .tail = 1,
                          .optimizer = {.update = engine::SgdOptions{.learning_rate = 1}},
                          .steps_of_epoch = 10,
                          .steps_total = 100};
  options.layout.parameters = {{.name = "w", .shape = {4}, .offset = 0, .size = 4}};
  options.layout.size = 4;
  return options;
}

class GradientTableTest : public ::testing::Test {
 protected:
  void Open(TableOptions options) {
    table_ = std::make_unique<GradientTable>(std::move(options),
                                             GradientTable::State{.values = {0, 0, 0, 0}});
  }
  // A gradient of this value everywhere, as the rank's next one.
  void Push(int rank, float value, bool leaving = false) {
    ASSERT_EQ(table_->Push(rank, std::vector<float>(5, value), {.leaving = leaving}),
              absl::OkStatus());
  }
  float value() const { return table_->values()[0]; }
  std::string Missing(int rank, uint64_t number) const {
    return absl::StrJoin(table_->MissingFor(rank, number), ",");
  }

  std::unique_ptr<GradientTable> table_;
};

TEST_F(GradientTableTest, AStepTakesTheMeanOfAllRanks) {
  Open(Options(TableMode::kSync, 2));
  Push(1, 3);
  EXPECT_EQ(table_->progress().steps, 0);
  EXPECT_FALSE(table_->MayPull(1, 1));
  EXPECT_EQ(Missing(1, 1), "0");
  Push(0, 1);
  EXPECT_EQ(table_->progress().steps, 1);
  EXPECT_EQ(value(), -2);
  EXPECT_EQ(table_->progress().tail, std::vector<float>{2});
  EXPECT_TRUE(table_->MayPull(1, 1));
}

TEST_F(GradientTableTest, AGradientCountsOnce) {
  Open(Options(TableMode::kSync, 2));
  EXPECT_EQ(table_->Judge(0, 1), Verdict::kTake);
  Push(0, 1);
  EXPECT_EQ(table_->Judge(0, 1), Verdict::kRepeated);
  EXPECT_EQ(table_->Judge(0, 2), Verdict::kAhead);
  EXPECT_EQ(table_->Judge(0, 3), Verdict::kSkips);
  Push(1, 1);
  EXPECT_EQ(table_->Judge(0, 1), Verdict::kRepeated);
  EXPECT_EQ(table_->Judge(0, 2), Verdict::kTake);
}

TEST_F(GradientTableTest, AnAsyncGradientIsAStepOfItsOwn) {
  Open(Options(TableMode::kAsync, 2));
  Push(0, 1);
  Push(0, 2);
  EXPECT_EQ(value(), -3);
  EXPECT_TRUE(table_->MayPull(0, 2));
  Push(1, 4);
  EXPECT_EQ(value(), -7);
  EXPECT_EQ(table_->progress().steps, 3);
  EXPECT_EQ(table_->progress().pushed, (std::vector<uint64_t>{2, 1}));
}

TEST_F(GradientTableTest, ARankFarAheadOfTheSlowestWaits) {
  Open(Options(TableMode::kBounded, 3, /*max_staleness=*/1));
  Push(0, 1);
  EXPECT_TRUE(table_->MayPull(0, 1));
  Push(0, 1);
  EXPECT_FALSE(table_->MayPull(0, 2));
  EXPECT_EQ(Missing(0, 2), "1,2");
  EXPECT_EQ(table_->Judge(0, 3), Verdict::kAhead);
  Push(1, 1);
  EXPECT_EQ(Missing(0, 2), "2");
  Push(2, 1);
  EXPECT_TRUE(table_->MayPull(0, 2));
}

TEST_F(GradientTableTest, RanksThatAreAskedToLeaveDoSoAfterTheSameNumber) {
  Open(Options(TableMode::kAsync, 2));
  Push(1, 1);
  Push(1, 1);
  Push(0, 1, /*leaving=*/true);
  EXPECT_EQ(table_->progress().leave_after, 3u);
  Push(1, 1);
  EXPECT_EQ(table_->progress().leave_after, 3u);
}

TEST_F(GradientTableTest, ScheduleAndDecayFollowTheStepsOfTheTraining) {
  for (const TableMode mode : {TableMode::kSync, TableMode::kAsync}) {
    TableOptions options = Options(mode, 2);
    options.schedule.decay = engine::StepDecay{.every_steps = 1, .factor = 0.5};
    Open(std::move(options));
    for (int step = 0; step < 2; ++step) {
      Push(0, 1);
      Push(1, 1);
    }
    // Sync takes one step for both ranks, async one for each.
    EXPECT_EQ(value(), mode == TableMode::kSync ? -1.5f : -3.0f);
  }
}

TEST_F(GradientTableTest, NobodyIsFarAheadOfTheDurableState) {
  TableOptions options = Options(TableMode::kSync, 1);
  options.publish_every = 2;
  Open(std::move(options));
  EXPECT_TRUE(table_->PublishDue());
  EXPECT_EQ(table_->BeginPublish().steps, 0);
  EXPECT_FALSE(table_->PublishDue());
  for (int i = 0; i < 4; ++i) Push(0, 1);
  EXPECT_TRUE(table_->MayPull(0, 4));
  Push(0, 1);
  EXPECT_FALSE(table_->MayPull(0, 5));
  EXPECT_EQ(Missing(0, 5), "");
  table_->EndPublish(/*durable=*/false);
  EXPECT_TRUE(table_->PublishDue());
  EXPECT_EQ(table_->BeginPublish().steps, 5);
  table_->EndPublish(/*durable=*/true);
  EXPECT_EQ(table_->durable().steps, 5);
  EXPECT_TRUE(table_->MayPull(0, 5));
  EXPECT_FALSE(table_->PublishDue());
}

// A rank keeps what is not durable, so its own number counts, whatever the others do.
TEST_F(GradientTableTest, AFastRankIsBoundedByWhatItKeeps) {
  TableOptions options = Options(TableMode::kAsync, 3);
  options.publish_every = 2;
  Open(std::move(options));
  EXPECT_EQ(table_->BeginPublish().steps, 0);
  table_->EndPublish(/*durable=*/true);
  Push(0, 1);
  EXPECT_FALSE(table_->PublishDue());
  Push(0, 1);
  EXPECT_TRUE(table_->PublishDue());
  for (int i = 0; i < 3; ++i) Push(0, 1);
  EXPECT_FALSE(table_->MayPull(0, 5));
  EXPECT_EQ(table_->Judge(0, 6), Verdict::kAhead);
  EXPECT_TRUE(table_->MayPull(1, 0));
  EXPECT_EQ(table_->BeginPublish().steps, 5);
  table_->EndPublish(/*durable=*/true);
  EXPECT_TRUE(table_->MayPull(0, 5));
}

TEST_F(GradientTableTest, AnotherNumberOfRanksDoesNotMoveTheSchedule) {
  for (const int ranks : {1, 8}) {
    TableOptions options = Options(TableMode::kAsync, 4);
    options.schedule.decay = engine::StepDecay{.every_steps = 1, .factor = 0.5};
    Open(options);
    for (int i = 0; i < 6; ++i) Push(i % 4, 0);  // one step of the training, and half of the next
    const TableProgress then = ForRanks(table_->progress(), ranks);
    EXPECT_EQ(then.training_steps, 1);
    EXPECT_EQ(then.gradients_since, ranks / 2);
    options.ranks = ranks;
    table_ = std::make_unique<GradientTable>(
        options, GradientTable::State{.progress = then, .values = {0, 0, 0, 0}});
    for (int i = ranks / 2; i < ranks; ++i) {
      Push(0, 1);
      EXPECT_EQ(value(), -0.5f * static_cast<float>(i - ranks / 2 + 1));
    }
    const float before = value();
    Push(0, 1);
    EXPECT_EQ(value(), before - 0.25f);
  }
}

TEST_F(GradientTableTest, AGradientThatIsNotFiniteIsRefusedBeforeItSpoilsTheState) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const int at : {0, 4}) {  // a value, the tail
    for (const TableMode mode : {TableMode::kSync, TableMode::kAsync}) {
      Open(Options(mode, 2));
      std::vector<float> gradient(5, 1);
      gradient[static_cast<size_t>(at)] = kInf;
      absl::Status status = table_->Push(1, gradient, {});
      if (mode == TableMode::kSync) {
        EXPECT_EQ(status, absl::OkStatus());
        status = table_->Push(0, std::vector<float>(5, 1), {});
        EXPECT_EQ(table_->WhyRefused(1, 1), status);
      }
      EXPECT_THAT(status.message(),
                  HasSubstr("step 1: the gradient or the loss of rank 1 is not finite"));
      EXPECT_EQ(table_->progress().steps, 0);
      EXPECT_EQ(value(), 0);
    }
  }
}

TEST_F(GradientTableTest, AMeanThatOverflowsIsRefused) {
  Open(Options(TableMode::kSync, 2));
  Push(1, std::numeric_limits<float>::max());
  const absl::Status status =
      table_->Push(0, std::vector<float>(5, std::numeric_limits<float>::max()), {});
  EXPECT_TRUE(absl::IsOutOfRange(status));
  EXPECT_EQ(value(), 0);
}

TEST_F(GradientTableTest, AnotherGenerationGoesOnBehindTheGradientsOfTheFormer) {
  const TableProgress two = {.steps = 7, .pushed = {4, 3}, .leave_after = 4};
  EXPECT_EQ(ForRanks(two, 2).pushed, (std::vector<uint64_t>{4, 3}));
  EXPECT_EQ(ForRanks(two, 2).leave_after, 0u);
  EXPECT_EQ(ForRanks(two, 3).pushed, (std::vector<uint64_t>{3, 3, 3}));
}

// The bits of data-parallel training: ordered mean, then the optimizer.
TEST_F(GradientTableTest, ASyncStepHasTheBitsOfAnAllReduceAndAStep) {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    TableOptions options = Options(TableMode::kSync, ranks);
    options.optimizer = {.update = engine::AdamWOptions{.learning_rate = 0.1}, .clip_norm = 0.5};
    const TableOptions same = options;
    std::vector<float> values = {1.5f, -0.25f, 3.0f, 0.1f}, mean(5);
    table_ =
        std::make_unique<GradientTable>(std::move(options), GradientTable::State{.values = values});
    const auto optimizer = engine::MakeHostOptimizer(
        same.optimizer, same.layout, absl::MakeSpan(values), absl::MakeConstSpan(mean).first(4));
    for (int step = 1; step <= 3; ++step) {
      std::vector<std::vector<float>> gradients;
      std::vector<const void*> inputs;
      for (int rank = 0; rank < ranks; ++rank) {
        const float x = static_cast<float>(step * 7 + rank * 3) / 9;
        gradients.push_back({x, 1 / x, -x * x, x / 7, x});
      }
      for (const auto& each : gradients) inputs.push_back(each.data());
      engine::ReduceInOrder(inputs, engine::DataType::kFloat32, 5, engine::ReduceOp::kMean,
                            mean.data());
      optimizer->Step({.number = step});
      for (int rank = ranks - 1; rank >= 0; --rank) {
        ASSERT_TRUE(table_->Push(rank, gradients[static_cast<size_t>(rank)], {}).ok());
      }
      EXPECT_EQ(std::vector<float>(table_->values().begin(), table_->values().end()), values);
      EXPECT_EQ(table_->progress().gradient_norm, optimizer->gradient_norm());
    }
  }
}

TEST_F(GradientTableTest, AStateGoesOnWithTheSameBits) {
  TableOptions options = Options(TableMode::kSync, 1);
  options.optimizer = {.update = engine::AdamWOptions{.learning_rate = 0.1}};
  Open(options);
  for (int i = 1; i <= 3; ++i) Push(0, static_cast<float>(i) / 3);
  GradientTable::State state = {.progress = table_->progress(),
                                .values = {table_->values().begin(), table_->values().end()},
                                .arrays = table_->arrays()};
  EXPECT_EQ(state.arrays.size(), ArrayNames(options.optimizer).size());
  GradientTable again(options, std::move(state));
  Push(0, 0.7f);
  ASSERT_TRUE(again.Push(0, std::vector<float>(5, 0.7f), {}).ok());
  EXPECT_EQ(again.values()[0], value());
  EXPECT_EQ(again.arrays(), table_->arrays());
}

}  // namespace
}  // namespace dp::server
