#include "worker/trainer/checkpoint/saver.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/testing/fake_checkpoints.h"
#include "worker/trainer/testing/over_cpu.h"
#include "worker/trainer/testing/striped_images.h"

namespace dp::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class SaverTest : public ::testing::Test, public Clock {
 protected:
  SaverTest()
      : model_(*MakeRankModel(APlan(), StripedImages(/*size=*/50), /*batch_size=*/4)),
        directory_(::testing::TempDir() + "saver_test") {
    fs::permissions(directory_, fs::perms::owner_all, ignored_);
    fs::remove_all(directory_);
    environment_.job = JobId(1);
  }

  std::unique_ptr<Saver> Make(Saver::Options options, uint64_t generation = 1) {
    environment_.generation = Generation(generation);
    options.directory = directory_;
    options.manifest.set_generation(generation);
    auto saver =
        std::make_unique<Saver>(options, environment_, model_, coordinator_.connection(), *this);
    EXPECT_TRUE(saver->Prepare(coordinator_.on_record).ok());
    return saver;
  }

  // Takes steps and waits for each save to end.
  void Step(Saver& saver, int64_t from, int64_t to) {
    for (int64_t step = from; step <= to; ++step) {
      saver.StepDone({.step = step});
      // SaveNow would not do: it saves positions that are not due, too.
      saver.AwaitIdle();
    }
  }

  std::vector<int64_t> steps() const {
    std::vector<int64_t> steps;
    for (const v1::Checkpoint& one : coordinator_.on_record) steps.push_back(one.step());
    return steps;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Time Now() const override { return now_; }

  absl::Time now_ = absl::UnixEpoch();
  RankModel model_;
  const std::string directory_;
  FakeCheckpoints coordinator_;
  Environment environment_;
  std::error_code ignored_;
};

// Otherwise zeros would be saved as weights.
TEST_F(SaverTest, NothingIsSavedOfADeviceThatFailsWhileItIsRead) {
  for (const int reads : {0, 1}) {  // the values, then the optimizer's state
    model_.device = std::make_unique<FailingDevice>(reads);
    const auto saver = Make({.every_steps = 1});
    EXPECT_EQ(saver->SaveNow({.step = 1}), FailingDevice::Failure());
    EXPECT_THAT(steps(), ElementsAre());
  }
}

// Notes which thread reads a snapshot, and fails if `failure` is set.
class WatchedDevice final : public OverCpu {
 public:
  absl::StatusOr<std::unique_ptr<engine::Snapshot>> TakeSnapshot(
      absl::Span<const absl::Span<const float>> arrays) const override {
    ++taken;
    return std::make_unique<Watched>(*this, *OverCpu::TakeSnapshot(arrays));
  }

  mutable std::thread::id reader;
  mutable int taken = 0;
  absl::Status failure;

 private:
  class Watched final : public engine::Snapshot {
   public:
    Watched(const WatchedDevice& device, std::unique_ptr<engine::Snapshot> under)
        : device_(device), under_(std::move(under)) {}
    absl::StatusOr<std::vector<std::vector<float>>> Take() override {
      device_.reader = std::this_thread::get_id();
      if (!device_.failure.ok()) return device_.failure;
      return under_->Take();
    }

   private:
    const WatchedDevice& device_;
    const std::unique_ptr<engine::Snapshot> under_;
  };
};

TEST_F(SaverTest, TheTrainingsThreadTakesASnapshotAndAnotherReadsIt) {
  auto device = std::make_unique<WatchedDevice>();
  const WatchedDevice& watched = *device;
  model_.device = std::move(device);
  EXPECT_EQ(Make({.every_steps = 1})->SaveNow({.step = 1}), absl::OkStatus());
  EXPECT_EQ(watched.taken, 1);
  EXPECT_NE(watched.reader, std::thread::id());
  EXPECT_NE(watched.reader, std::this_thread::get_id());
}

TEST_F(SaverTest, ASnapshotThatCannotBeReadIsALostCheckpoint) {
  auto device = std::make_unique<WatchedDevice>();
  device->failure = FailingDevice::Failure();
  model_.device = std::move(device);
  const auto saver = Make({.every_steps = 1});
  EXPECT_EQ(saver->SaveNow({.step = 1}), FailingDevice::Failure());
  EXPECT_THAT(steps(), ElementsAre());
  const std::vector<v1::Metric> reports = saver->TakeReports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].event(), "checkpoint_lost");
  EXPECT_EQ(reports[0].message(), FailingDevice::Failure().message());
}

// The files hold the state at the step, in their order, though the training goes on.
TEST_F(SaverTest, WhatIsSavedIsTheStateAtTheStep) {
  const std::vector<float> values = *engine::ReadArray(*model_.device, model_.values->span());
  const std::vector<engine::OptimizerState> arrays = model_.optimizer->state();
  ASSERT_EQ(arrays.size(), 1u);
  // Between the tensors lies no state.
  for (const engine::Parameter& tensor : model_.layout.parameters) {
    std::fill_n(arrays[0].values.begin() + tensor.offset, tensor.size, 0.25f);
  }
  const std::vector<float> state(arrays[0].values.begin(), arrays[0].values.end());
  const auto saver = Make({.every_steps = 1});
  saver->StepDone({.step = 1});
  for (const absl::Span<float> array : {model_.values->span(), arrays[0].values}) {
    std::fill(array.begin(), array.end(), 7.0f);
  }
  saver->AwaitIdle();
  ASSERT_THAT(steps(), ElementsAre(1));
  const v1::Checkpoint& saved = coordinator_.on_record[0];
  const auto read = ReadTensors(saved.path(), *ReadManifest(saved.path(), saved.sha256()),
                                model_.layout, {std::string(arrays[0].name)});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->values, values);
  EXPECT_EQ(read->optimizer[0].values, state);
}

TEST_F(SaverTest, SavesEverySoManySteps) {
  const auto saver = Make({.every_steps = 10, .keep = 5});
  Step(*saver, 1, 35);
  EXPECT_THAT(steps(), ElementsAre(30, 20, 10));
}

TEST_F(SaverTest, SavesWhenSoMuchTimeHasPassed) {
  const auto saver = Make({.every = absl::Minutes(10), .keep = 5});
  Step(*saver, 1, 5);
  now_ += absl::Minutes(11);
  Step(*saver, 6, 9);
  EXPECT_THAT(steps(), ElementsAre(6));
}

TEST_F(SaverTest, FilesBeyondWhatIsKeptGo) {
  const auto saver = Make({.every_steps = 10, .keep = 2});
  Step(*saver, 1, 40);
  EXPECT_THAT(names(), ElementsAre("step-30-generation-1", "step-40-generation-1"));
}

TEST_F(SaverTest, SaveNowSavesAPositionOnce) {
  const auto saver = Make({.every_steps = 10});
  Step(*saver, 1, 10);
  EXPECT_TRUE(saver->SaveNow({.step = 10}).ok());
  EXPECT_THAT(steps(), ElementsAre(10));
  EXPECT_TRUE(saver->SaveNow({.step = 13}).ok());
  EXPECT_THAT(steps(), ElementsAre(13, 10));
}

TEST_F(SaverTest, ReportsWhatItHasSaved) {
  const auto saver = Make({.every_steps = 10});
  Step(*saver, 1, 10);
  const std::vector<v1::Metric> reports = saver->TakeReports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].event(), "checkpoint");
  EXPECT_EQ(reports[0].step(), 10);
  EXPECT_EQ(reports[0].path(), directory_ + "/step-10-generation-1");
  EXPECT_GT(reports[0].bytes(), 0);
  EXPECT_TRUE(saver->TakeReports().empty());
}

TEST_F(SaverTest, WhatCannotBeWrittenIsReportedAndTriedAgain) {
  const auto saver = Make({.every_steps = 10});
  fs::remove_all(directory_);
  Step(*saver, 1, 10);
  const std::vector<v1::Metric> reports = saver->TakeReports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].event(), "checkpoint_lost");
  EXPECT_THAT(reports[0].message(), HasSubstr("train.checkpoint.dir: cannot create " + directory_));
  fs::create_directory(directory_);
  Step(*saver, 11, 20);
  EXPECT_THAT(steps(), ElementsAre(20));
}

TEST_F(SaverTest, SaveNowTriesAgainWhatWasLostAndSaysWhyItIs) {
  const auto saver = Make({.every_steps = 10});
  fs::remove_all(directory_);
  Step(*saver, 1, 10);
  EXPECT_THAT(saver->SaveNow({.step = 10}).message(), HasSubstr("cannot create " + directory_));
  fs::create_directory(directory_);
  EXPECT_EQ(saver->SaveNow({.step = 10}), absl::OkStatus());
  EXPECT_THAT(steps(), ElementsAre(10));
}

TEST_F(SaverTest, WhatMayBeOnRecordOutlivesALostAnswer) {
  const auto saver = Make({.every_steps = 10});
  coordinator_.connection().CancelAll();  // the rank is being stopped
  Step(*saver, 1, 10);
  EXPECT_THAT(names(), ElementsAre("step-10-generation-1"));
}

class BestCheckpointTest : public SaverTest {
 protected:
  std::unique_ptr<Saver> MakeBest(uint64_t generation = 1) {
    return Make({.every_steps = 10, .keep = 1, .best = WatchedMetric::kAccuracy}, generation);
  }
  static void Evaluate(Saver& saver, int64_t step, std::optional<double> accuracy) {
    saver.Evaluated({.step = step}, {.accuracy = accuracy});
    saver.AwaitIdle();
  }
};

TEST_F(BestCheckpointTest, TheBestStaysBesideTheLatest) {
  const auto saver = MakeBest();
  Step(*saver, 1, 10);
  Evaluate(*saver, 15, 0.5);
  Step(*saver, 16, 20);
  Evaluate(*saver, 25, 0.5);  // no better
  Step(*saver, 26, 40);
  EXPECT_THAT(steps(), ElementsAre(40, 15));
  EXPECT_THAT(names(), ElementsAre("step-15-generation-1", "step-40-generation-1"));
  EXPECT_EQ(saver->best()->best(), "accuracy 0.5");
  Evaluate(*saver, 45, 0.75);
  EXPECT_THAT(steps(), ElementsAre(45));
  EXPECT_EQ(saver->best()->best(), "accuracy 0.75");
}

TEST_F(BestCheckpointTest, OneThatIsOnDiskIsOnlyMarked) {
  const auto saver = MakeBest();
  Step(*saver, 1, 10);
  Evaluate(*saver, 10, 0.5);
  EXPECT_THAT(steps(), ElementsAre(10));
  EXPECT_EQ(saver->best()->step(), 10);
  std::vector<std::string> events;
  for (const v1::Metric& metric : saver->TakeReports()) events.push_back(metric.event());
  EXPECT_THAT(events, ElementsAre("checkpoint", "best_checkpoint"));
}

TEST_F(BestCheckpointTest, WhatIsNoNumberIsNeverTheBest) {
  const auto saver = MakeBest();
  Evaluate(*saver, 5, std::nullopt);
  Evaluate(*saver, 6, NAN);
  EXPECT_FALSE(saver->best());
  EXPECT_THAT(steps(), ElementsAre());
}

TEST_F(BestCheckpointTest, TheNextGenerationKnowsTheBest) {
  Evaluate(*MakeBest(), 15, 0.5);
  const auto saver = MakeBest(/*generation=*/2);
  Evaluate(*saver, 20, 0.25);
  Step(*saver, 21, 30);
  EXPECT_THAT(steps(), ElementsAre(30, 15));
  Evaluate(*saver, 35, 0.75);
  EXPECT_EQ(saver->best()->step(), 35);
}

// The earlier one stays the best, and the next evaluation that is better is saved.
TEST_F(BestCheckpointTest, ALostBestIsNoBest) {
  const auto saver = MakeBest();
  Evaluate(*saver, 15, 0.5);
  coordinator_.refusal = absl::InvalidArgumentError("no");
  Evaluate(*saver, 20, 0.75);
  coordinator_.refusal = absl::OkStatus();
  EXPECT_EQ(saver->best()->step(), 15);
  Evaluate(*saver, 25, 0.6);
  EXPECT_EQ(saver->best()->step(), 25);
}

// A coordinator may be away for hours.
TEST_F(BestCheckpointTest, AnEvaluationWaitsForNoCheckpointAndTheBestIsNotLost) {
  std::promise<void> back;
  coordinator_.on_register = [away = back.get_future().share()] { away.wait(); };
  const auto saver = MakeBest();
  saver->StepDone({.step = 10});
  saver->Evaluated({.step = 10}, {.accuracy = 0.5});
  saver->Evaluated({.step = 12}, {.accuracy = 0.6});
  saver->Evaluated({.step = 14}, {.accuracy = 0.55});
  back.set_value();
  saver->AwaitIdle();
  EXPECT_EQ(saver->best()->step(), 12);
  EXPECT_THAT(steps(), ElementsAre(12));
}

TEST_F(BestCheckpointTest, TheMarkOfACheckpointInFlightComesBehindIt) {
  std::promise<void> back;
  coordinator_.on_register = [away = back.get_future().share()] { away.wait(); };
  const auto saver = MakeBest();
  saver->StepDone({.step = 10});
  saver->Evaluated({.step = 10}, {.accuracy = 0.5});
  back.set_value();
  saver->AwaitIdle();
  EXPECT_EQ(saver->best()->step(), 10);
  EXPECT_THAT(names(), ElementsAre("step-10-generation-1"));
}

TEST_F(SaverTest, AGenerationThatIsOverStops) {
  const auto saver = Make({.every_steps = 10});
  coordinator_.refusal = absl::FailedPreconditionError("generation 1 is stale, current is 2");
  Step(*saver, 1, 40);
  EXPECT_EQ(saver->SaveNow({.step = 40}), coordinator_.refusal);
  EXPECT_THAT(names(), ElementsAre("step-10-generation-1"));
  const std::vector<v1::Metric> reports = saver->TakeReports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_THAT(reports[0].message(), HasSubstr("is stale"));
}

TEST_F(SaverTest, ANewGenerationRemovesWhatEarlierOnesLeftUnregistered) {
  Step(*Make({.every_steps = 10}), 1, 20);
  fs::create_directory(directory_ + "/.step-25-generation-1.partial");
  fs::create_directory(directory_ + "/step-25-generation-1");
  fs::create_directory(directory_ + "/step-30-generation-3");
  fs::create_directory(directory_ + "/mine");
  Make({.every_steps = 10}, /*generation=*/2);
  EXPECT_THAT(names(), ElementsAre("mine", "step-10-generation-1", "step-20-generation-1",
                                   "step-30-generation-3"));
}

TEST_F(SaverTest, ADirectoryThatCannotBeMadeIsAnErrorAtOnce) {
  Saver::Options options;
  options.directory = "/proc/nonexistent/checkpoints";
  Saver saver(options, environment_, model_, coordinator_.connection(), Clock::System());
  EXPECT_THAT(saver.Prepare({}).message(), HasSubstr("/proc/nonexistent/checkpoints"));
}

}  // namespace
}  // namespace dp::trainer
