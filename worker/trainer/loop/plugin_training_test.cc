// Trainings of several ranks with layers of a plug-in.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "worker/trainer/program/rank_plugins.h"
#include "worker/trainer/testing/training.h"

namespace dp::trainer {
namespace {

// With this layer in the middle, and with all that a training keeps beside the weights.
Training::Options WithMiddle(const model::LayerKind& kind) {
  TrainingPlan plan = APlan();
  plan.layers = {{"", model::Flatten{}},
                 {"", model::Linear{.out = 12}},
                 {"mine", kind},
                 {"", model::Linear{}}};
  plan.clip_norm = 1;
  plan.average_decay = 0.9;
  plan.accumulate = 2;
  plan.groups = {{"*.bias", {.learning_rate_factor = 0.5}}};
  EXPECT_EQ(LoadPlugins(plan), absl::OkStatus());
  return {.plan = std::move(plan), .every_steps = 3};
}

model::Plugin OfTestPlugin(const std::string& layer) {
  return {DP_PLUGINS "/good_plugin.so", layer};
}

TEST(PluginTrainingTest, ATwinOfABuiltInLayerTrainsToTheSameBits) {
  const auto mine = Training("plugin").Run(WithMiddle(OfTestPlugin("rmsNorm")));
  const auto built_in = Training("built_in").Run(WithMiddle(model::RmsNorm{}));
  ASSERT_TRUE(mine.status.ok()) << mine.status;
  EXPECT_TRUE(SameBits(mine.weights, built_in.weights));
}

// The layer has a running statistic, which only the checkpoint carries on.
TEST(PluginTrainingTest, ATrainingThatIsHandedOverGoesOnToTheSameBits) {
  const Training::Options options = WithMiddle(OfTestPlugin("center"));
  const auto whole = Training("whole").Run(options);
  Training parted("parted");
  Training::Options first = options;
  first.leave_at = 4;
  EXPECT_EQ(parted.Run(first).end, TrainingEnd::kHandedOver);
  const auto rest = parted.Run(options);
  ASSERT_TRUE(rest.status.ok()) << rest.status;
  EXPECT_TRUE(SameBits(rest.weights, whole.weights));
}

}  // namespace
}  // namespace dp::trainer
