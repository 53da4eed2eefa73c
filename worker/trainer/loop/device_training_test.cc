// Trainings of several ranks on the GPU device, over NCCL, with its kernels run on the host. Memory
// belongs to the device or to the host here too, and a group rejects the wrong kind.

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "store/hash_store.h"
#include "worker/engine/device/cuda/testing/cuda_on_host_capture.h"
#include "worker/engine/device/cuda/testing/cuda_on_host_memory.h"
#include "worker/trainer/loop/train_loop.h"
#include "worker/trainer/model/evaluation.h"
#include "worker/trainer/testing/open_fake_nccl.h"
#include "worker/trainer/testing/training.h"

namespace dp::trainer {
namespace {

constexpr int kRanks = 2;
// Two devices sum in different orders, over several steps.
constexpr float kTwinTolerance = 1e-4f;

class DeviceTrainingTest : public ::testing::Test {
 protected:
  using Program = Training::Options::Program;

  Training::Options OnDevice(const TrainingPlan& plan, Program program = Program::kOfDevice) {
    return {.plan = plan,
            .world_size = kRanks,
            .program = program,
            .open_groups =
                [this](int size) {
                  // Each generation has a store of its own.
                  return OpenFakeNccl(nccl_, *stores_.emplace_back(new HashStore), size);
                },
            .open_device = [] { return engine::OpenCuda(0); }};
  }

  // Runs `body` as each rank.
  void OnRanks(const std::function<void(engine::Group&)>& body) {
    const auto groups = OnDevice({}).open_groups(kRanks);
    std::vector<std::jthread> ranks;
    for (const auto& group : groups) ranks.emplace_back([&body, &group] { body(*group); });
    ranks.clear();
  }

  engine::FakeNccl nccl_{engine::cuda::on_host::IsDeviceMemory};
  std::vector<std::unique_ptr<HashStore>> stores_;
};

std::map<int, double> LossesOf(const Training& training, const std::string& event) {
  std::map<int, double> losses;
  for (const v1::Metric& metric : training.metrics()) {
    if (metric.event() == event) losses[metric.step()] = metric.loss();
  }
  return losses;
}

void ExpectNear(const std::map<int, double>& losses, const std::map<int, double>& expected) {
  ASSERT_EQ(losses.size(), expected.size());
  for (const auto& [step, loss] : expected) {
    EXPECT_NEAR(losses.at(step), loss, kTwinTolerance * loss) << "step " << step;
  }
}

void ExpectTheTrainingOfTheCpu(const TrainingPlan& plan, const Training::Options& options) {
  Training on_cpu("device_training_test_cpu"), on_device("device_training_test");
  const auto expected = on_cpu.Run({.plan = plan, .world_size = kRanks});
  const auto outcome = on_device.Run(options);
  ASSERT_EQ(outcome.status, absl::OkStatus());
  ASSERT_EQ(outcome.weights.size(), expected.weights.size());
  for (size_t i = 0; i < expected.weights.size(); ++i) {
    EXPECT_NEAR(outcome.weights[i], expected.weights[i], kTwinTolerance) << i;
  }
  ExpectNear(LossesOf(on_device, "step"), LossesOf(on_cpu, "step"));
  ExpectNear(LossesOf(on_device, "eval"), LossesOf(on_cpu, "eval"));
}

TEST_F(DeviceTrainingTest, AWholeTrainingIsThatOfTheCpu) {
  ExpectTheTrainingOfTheCpu(APlan(), OnDevice(APlan()));
}

TEST_F(DeviceTrainingTest, StepsInPartsAreThoseOfTheCpu) {
  TrainingPlan plan = APlan();
  plan.accumulate = 3;
  ExpectTheTrainingOfTheCpu(plan, OnDevice(plan, Program::kNone));
}

TEST_F(DeviceTrainingTest, ClippingGroupsAndTheScheduleAreThoseOfTheCpu) {
  TrainingPlan plan = APlan();
  plan.clip_norm = 0.5;
  plan.average_decay = 0.8;
  plan.groups = {{.match = "conv2d0.bias", .options = {.frozen = true}},
                 {.match = "*.bias", .options = {.learning_rate_factor = 2}}};
  plan.schedule = {.warmup_steps = 3, .decay = engine::CosineDecay{.factor_min = 0.1}};
  ExpectTheTrainingOfTheCpu(plan, OnDevice(plan));
}

// Each bucket has a graph of its own, and parameters are updated by bucket.
TEST_F(DeviceTrainingTest, StepsOfAProgramHaveTheBitsOfTheirParts) {
  using Optimizer = decltype(TrainingPlan::optimizer);
  const Optimizer sgd = APlan().optimizer;
  const Optimizer adamw = engine::AdamWOptions{.learning_rate = 0.01};
  const struct {
    engine::Precision precision;
    Optimizer optimizer;
    int64_t bucket_bytes_max;
    double clip_norm = 0;
  } cases[] = {{engine::Precision::kFloat32, sgd, 64},
               {engine::Precision::kFloat32, adamw, 1 << 20},
               {engine::Precision::kBfloat16, adamw, 64},
               {engine::Precision::kFloat32, sgd, 64, /*clip_norm=*/0.1}};
  for (const auto& each : cases) {
    TrainingPlan plan = APlan();
    plan.precision = each.precision;
    plan.optimizer = each.optimizer;
    plan.bucket_bytes_max = each.bucket_bytes_max;
    plan.clip_norm = each.clip_norm;
    plan.average_decay = 0.8;
    plan.schedule = {.warmup_steps = 3, .decay = engine::CosineDecay{.factor_min = 0.1}};
    Training by_parts("device_training_test_parts"), training("device_training_test");
    const auto expected = by_parts.Run(OnDevice(plan, Program::kNone));
    const auto outcome = training.Run(OnDevice(plan));
    ASSERT_EQ(outcome.status, absl::OkStatus());
    EXPECT_TRUE(SameBits(outcome.weights, expected.weights));
    EXPECT_EQ(LossesOf(training, "step"), LossesOf(by_parts, "step"));
    EXPECT_EQ(LossesOf(training, "step").size(), 10u);
  }
}

// Capture fails at the first piece of a step, or between two pieces, when some work is queued on
// the stream already.
TEST_F(DeviceTrainingTest, StepsThatCannotBeCapturedHaveTheBitsOfThoseThatAre) {
  TrainingPlan plan = APlan();
  plan.bucket_bytes_max = 64;
  Training captured("device_training_test_captured");
  const auto expected = captured.Run(OnDevice(plan));
  for (const int piece : {0, 1}) {
    const int refused = engine::cuda::on_host::CapturesRefused();
    engine::cuda::on_host::RefuseCapture(piece);
    Training training("device_training_test");
    const auto outcome = training.Run(OnDevice(plan));
    engine::cuda::on_host::RefuseCapture(-1);
    ASSERT_EQ(outcome.status, absl::OkStatus());
    EXPECT_EQ(engine::cuda::on_host::CapturesRefused() - refused, kRanks);
    EXPECT_TRUE(SameBits(outcome.weights, expected.weights)) << "piece " << piece;
    EXPECT_EQ(LossesOf(training, "step"), LossesOf(captured, "step")) << "piece " << piece;
  }
}

// Rank 0 learns of the request earlier than rank 1, because rank 0 drains its steps to save.
TEST_F(DeviceTrainingTest, AllRanksLeaveAfterTheSameStep) {
  TrainingPlan plan = APlan();
  plan.evaluate_every = 0;
  Training undisturbed("device_training_test_undisturbed"), training("device_training_test");
  const auto expected = undisturbed.Run(OnDevice(plan));
  auto leaving = OnDevice(plan);
  leaving.every_steps = 1;
  leaving.leave_at = 2;
  const auto left = training.Run(leaving);
  ASSERT_EQ(left.status, absl::OkStatus());
  EXPECT_EQ(left.end, TrainingEnd::kHandedOver);
  EXPECT_EQ(training.coordinator.on_record.front().step(), 5);
  const auto outcome = training.Run(OnDevice(plan));
  ASSERT_EQ(outcome.status, absl::OkStatus());
  EXPECT_TRUE(SameBits(outcome.weights, expected.weights));
}

// The last step is the hard case: no later step shows that the group is broken. Whether the step
// before it is told depends on how far the host was: it tells a step after giving the next one.
TEST_F(DeviceTrainingTest, TheStepInWhichAPeerGoesAwayIsNeitherToldNorSaved) {
  TrainingPlan plan = APlan();
  plan.steps_max = 3;
  plan.evaluate_every = 0;
  Training training("device_training_test");
  auto options = OnDevice(plan);
  options.every_steps = 1;
  options.keep = 10;
  options.rank_one_gone_after = 2;
  options.before_going = [this] { nccl_.AwaitOperation(); };
  const auto outcome = training.Run(options);
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kUnavailable) << outcome.status;
  EXPECT_LE(LossesOf(training, "step").size(), 2u);
  for (const v1::Checkpoint& saved : training.coordinator.on_record) EXPECT_LE(saved.step(), 2);
}

TEST_F(DeviceTrainingTest, ATrainingThatGoesOnHasTheBitsOfOneThatWasNotBrokenOff) {
  for (const bool adamw : {false, true}) {
    TrainingPlan plan = APlan();
    plan.evaluate_every = 0;
    if (adamw) plan.optimizer = engine::AdamWOptions{.learning_rate = 0.01};
    TrainingPlan half = plan;
    half.steps_max = 3;
    Training undisturbed("device_training_test_undisturbed"), training("device_training_test");
    const auto expected = undisturbed.Run(OnDevice(plan));
    auto first = OnDevice(half);
    first.every_steps = 3;
    ASSERT_EQ(training.Run(first).status, absl::OkStatus());
    ASSERT_EQ(training.coordinator.on_record.size(), 1u);
    const auto outcome = training.Run(OnDevice(plan));
    ASSERT_EQ(outcome.status, absl::OkStatus());
    EXPECT_TRUE(SameBits(outcome.weights, expected.weights)) << "adamw " << adamw;
  }
}

TEST_F(DeviceTrainingTest, AReplicaThatBeganElsewhereGetsTheValuesOfRankZero) {
  std::vector<std::vector<float>> values(kRanks);
  OnRanks([&](engine::Group& group) {
    TrainingPlan plan = APlan();
    plan.seed = static_cast<uint64_t>(group.rank()) + 1;
    const StripedImages images(/*size=*/8);
    auto model = MakeRankModel(plan, images, /*batch_size=*/2, *engine::OpenCuda(0));
    ASSERT_TRUE(model.ok()) << model.status();
    ASSERT_EQ(engine::AlignReplicas(group, model->layout, model->values->span()), absl::OkStatus());
    std::vector<float>& mine = values[group.rank()];
    mine.resize(static_cast<size_t>(model->layout.size));
    model->device->Read(model->values->span(), absl::MakeSpan(mine));
  });
  EXPECT_TRUE(SameBits(values[0], values[1]));
}

TEST_F(DeviceTrainingTest, RanksFinishTogether) {
  OnRanks([](engine::Group& group) {
    bool worked = false;
    EXPECT_EQ(FinishTogether(group, absl::Milliseconds(1),
                             [&] {
                               worked = true;
                               return absl::OkStatus();
                             }),
              absl::OkStatus());
    EXPECT_EQ(worked, group.rank() == 0);
    EXPECT_EQ(group.Leave()->Wait(), absl::OkStatus());
  });
}

}  // namespace
}  // namespace dp::trainer
