// Trainings whose ranks are bound by NCCL, with the CPU in the place of their GPUs.

#include <string>
#include <vector>

#include "base/store/hash_store.h"
#include "gmock/gmock.h"
#include "worker/engine/collectives/nccl_group.h"
#include "worker/engine/collectives/testing/fake_nccl.h"
#include "worker/trainer/testing/training.h"

namespace dp::trainer {
namespace {

class NcclTrainingTest : public ::testing::Test {
 protected:
  Training::Groups Open(int size) {
    Training::Groups groups(static_cast<size_t>(size));
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back([this, &groups, rank, size] {
        auto group = engine::ConnectNccl(nccl_, store_, rank, size,
                                         {.group = {.timeout = absl::Seconds(60)},
                                          .connect_timeout = absl::Seconds(60),
                                          .beat = absl::Milliseconds(50),
                                          .ask_ras = false});
        ASSERT_TRUE(group.ok()) << group.status();
        groups[static_cast<size_t>(rank)] = *std::move(group);
      });
    }
    return groups;
  }

  engine::FakeNccl nccl_;
  HashStore store_;
};

// What an all-reduce that was ended early leaves in the gradients is neither told nor saved, though
// the device goes on and its loss is a number.
TEST_F(NcclTrainingTest, TheStepInWhichAPeerGoesAwayIsNeitherToldNorSaved) {
  TrainingPlan plan = APlan();
  plan.evaluate_every = 0;
  Training training("nccl_training_test");
  const auto outcome = training.Run({.plan = plan,
                                     .world_size = 2,
                                     .every_steps = 1,
                                     .keep = 10,
                                     .open_groups = [this](int size) { return Open(size); },
                                     .rank_one_gone_after = 2});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kUnavailable) << outcome.status;
  EXPECT_THAT(std::string(outcome.status.message()), ::testing::HasSubstr("rank 1 went away"));
  int last_told = 0;
  for (const v1::Metric& metric : training.metrics()) {
    if (metric.event() == "step") last_told = metric.step();
  }
  EXPECT_EQ(last_told, 2);
  for (const v1::Checkpoint& saved : training.coordinator.on_record) EXPECT_LE(saved.step(), 2);
}

}  // namespace
}  // namespace dp::trainer
