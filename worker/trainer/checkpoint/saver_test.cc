#include "worker/trainer/checkpoint/saver.h"

#include <filesystem>
#include <fstream>

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
