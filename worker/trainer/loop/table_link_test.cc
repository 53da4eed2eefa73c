#include "worker/trainer/loop/table_link.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace dp::trainer {
namespace {

TrainingPlan ATablePlan(int64_t publish_every = 100) {
  TrainingPlan plan;
  plan.table = TablePlan{.publish_every = publish_every};
  plan.optimizer = engine::AdamWOptions{.learning_rate = 0.5};
  plan.schedule = {.warmup_steps = 3, .decay = engine::CosineDecay{.factor_min = 0.25}};
  plan.clip_norm = 2;
  return plan;
}

engine::ParameterLayout OfSize(int64_t size) {
  engine::ParameterLayout layout;
  layout.parameters = {{.name = "w", .shape = {size}, .size = size, .options = {.frozen = true}}};
  layout.size = size;
  return layout;
}

TEST(TableLinkTest, TheTableHasTheSettingsOfThePlan) {
  const v1::TableSettings settings = TableSettingsOf(ATablePlan(), OfSize(5), 3, 10, 30);
  EXPECT_EQ(settings.mode(), v1::TABLE_MODE_SYNC);
  EXPECT_EQ(settings.ranks(), 3);
  EXPECT_EQ(settings.publish_every(), 100);
  EXPECT_TRUE(settings.parameters(0).frozen());
  EXPECT_FALSE(settings.parameters(0).has_weight_decay());
  EXPECT_EQ(settings.optimizer().adamw().learning_rate(), 0.5);
  EXPECT_EQ(settings.optimizer().clip_norm(), 2);
  EXPECT_EQ(settings.schedule().warmup_steps(), 3);
  EXPECT_EQ(settings.schedule().cosine().factor_min(), 0.25);
  EXPECT_EQ(settings.schedule().steps_total(), 30);
}

// Gradients of three intervals must fit in 256 MiB.
TEST(TableLinkTest, ALargeModelIsPublishedMoreOften) {
  const auto every = [](int64_t floats) {
    return TableSettingsOf(ATablePlan(), OfSize(floats), 1, 1, 1).publish_every();
  };
  EXPECT_EQ(every(int64_t{1} << 10), 100);
  EXPECT_EQ(every(int64_t{1} << 21), 10);
  EXPECT_EQ(every(int64_t{1} << 30), 1);
}

TEST(TableLinkTest, ThePositionFollowsFromTheState) {
  v1::TableState state;
  state.add_tail(0.5f);
  state.set_samples(60);
  state.set_epoch_loss_sum(100);
  state.set_epoch_samples(120);
  EXPECT_EQ(PositionIn(state, 0, 10).step, 0);
  const Position within = PositionIn(state, 13, 10);
  EXPECT_EQ(within.step, 13);
  EXPECT_EQ(within.epoch, 2);
  EXPECT_EQ(within.step_of_epoch, 3);
  EXPECT_EQ(within.epoch_loss_sum, 130);
  EXPECT_EQ(within.epoch_samples, 180);
  const Position first = PositionIn(state, 11, 10);
  EXPECT_EQ(first.step_of_epoch, 1);
  EXPECT_EQ(first.epoch_loss_sum, 30);
  EXPECT_EQ(PositionIn(state, 10, 10).step_of_epoch, 10);
}

}  // namespace
}  // namespace dp::trainer
