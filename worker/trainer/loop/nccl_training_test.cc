// Trainings over NCCL, with the CPU in place of the GPUs.

#include <string>

#include "gmock/gmock.h"
#include "store/hash_store.h"
#include "worker/trainer/testing/open_fake_nccl.h"
#include "worker/trainer/testing/training.h"

namespace dp::trainer {
namespace {

// An aborted all-reduce leaves wrong gradients. The step is neither reported nor saved, although
// the device still works and the loss is finite.
TEST(NcclTrainingTest, TheStepInWhichAPeerGoesAwayIsNeitherToldNorSaved) {
  engine::FakeNccl nccl(engine::FakeNccl::Anywhere);
  HashStore store;
  TrainingPlan plan = APlan();
  plan.evaluate_every = 0;
  Training training("nccl_training_test");
  const auto outcome =
      training.Run({.plan = plan,
                    .world_size = 2,
                    .every_steps = 1,
                    .keep = 10,
                    .open_groups = [&](int size) { return OpenFakeNccl(nccl, store, size); },
                    .rank_one_gone_after = 2,
                    .before_going = [&] { nccl.AwaitOperation(); }});
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
