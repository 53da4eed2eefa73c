#include "worker/trainer/checkpoint/final_weights.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "base/status.h"
#include "client/testing/fake_parameters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/convert/time.h"
#include "worker/trainer/checkpoint/sha256.h"
#include "worker/trainer/testing/fake_checkpoints.h"
#include "worker/trainer/testing/over_cpu.h"
#include "worker/trainer/testing/striped_images.h"

namespace dp::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class FrozenClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::FromUnixSeconds(1'000'000'000); }
};

class FinalWeightsTest : public ::testing::Test {
 protected:
  FinalWeightsTest() {
    fs::remove_all(directory_);
    fs::create_directory(directory_);
    environment_.job = JobId(1);
    environment_.generation = Generation(1);
  }

  absl::Status Place() { return Place(Clock::System()); }
  absl::Status Place(const Clock& clock) {
    DP_ASSIGN_OR_RETURN(const std::string encoded, EncodeWeights(model_, /*steps=*/7, {}));
    return PlaceWeights({path_, absl::UnixEpoch()}, encoded, environment_,
                        coordinator_.connection(), clock, pause_);
  }
  std::string Contents() const {
    std::ifstream file(path_, std::ios::binary);
    return (std::stringstream() << file.rdbuf()).str();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  const std::string directory_ = ::testing::TempDir() + "final_weights_test";
  const std::string path_ = directory_ + "/model.safetensors";
  RankModel model_ = *MakeRankModel(APlan(), StripedImages(/*size=*/50), /*batch_size=*/4);
  FakeCheckpoints coordinator_;
  Environment environment_;
  client::Pause pause_;
};

TEST_F(FinalWeightsTest, AreTheAverageIfEvaluationsTakeIt) {
  ASSERT_EQ(Place(), absl::OkStatus());
  const std::string weights = Contents();
  TrainingPlan plan = APlan();
  plan.average_decay = 0.9;
  for (const bool evaluates : {false, true}) {
    plan.average_evaluates = evaluates;
    // The average is zero before the first step.
    model_ = *MakeRankModel(plan, StripedImages(/*size=*/50), /*batch_size=*/4);
    ASSERT_EQ(Place(), absl::OkStatus());
    EXPECT_EQ(Contents() == weights, !evaluates);
  }
}

TEST_F(FinalWeightsTest, ADeviceThatFailsWhileItIsReadLeavesNone) {
  model_.device = std::make_unique<FailingDevice>(/*reads=*/0);
  EXPECT_EQ(Place(), FailingDevice::Failure());
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(FinalWeightsTest, TheFileInItsPlaceIsTheOneOnRecord) {
  EXPECT_EQ(Place(), absl::OkStatus());
  EXPECT_EQ(coordinator_.weights.path(), path_);
  EXPECT_EQ(coordinator_.weights.sha256(), Sha256Hex(Contents()));
  EXPECT_THAT(names(), ElementsAre("model.safetensors"));
}

TEST_F(FinalWeightsTest, TheTimeOfTheFileIsOnRecord) {
  EXPECT_EQ(Place(), absl::OkStatus());
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(FromProto(coordinator_.weights.modified_at()), absl::TimeFromTimespec(info.st_mtim));
}

// Two ranks may finish within one step of the kernel's clock, which here stands still.
TEST_F(FinalWeightsTest, NoTwoFilesHaveTheSameTime) {
  const FrozenClock clock;
  std::set<absl::Time> times;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(Place(clock), absl::OkStatus());
    const absl::Time time = FromProto(coordinator_.weights.modified_at());
    EXPECT_GE(time, clock.Now());
    EXPECT_LT(time, clock.Now() + absl::Milliseconds(1));
    times.insert(time);
  }
  EXPECT_EQ(times.size(), 3u);
}

// As if the coordinator was away for a day after the exchange: nobody knows which file counts.
TEST_F(FinalWeightsTest, TheNamesBesideThePlaceSayTheJobAndWhetherTheFileIsItsOwn) {
  std::ofstream(path_) << "of another job";
  coordinator_.refusal_of_next = absl::InvalidArgumentError("no verdict");
  EXPECT_EQ(Place(), coordinator_.refusal_of_next);
  EXPECT_THAT(names(), ::testing::UnorderedElementsAre(
                           "model.safetensors",
                           "model.safetensors.job-1-19700101T000000.000Z.generation-1.placing"));
}

TEST_F(FinalWeightsTest, AFileThatIsNoneOfWeightsStays) {
  EXPECT_EQ(CheckPlaceOfWeights(path_, 1), absl::OkStatus());
  std::ofstream(path_) << "a,b,label\n1,2,0\n";
  EXPECT_THAT(CheckPlaceOfWeights(path_, 1).message(),
              ::testing::HasSubstr("model.safetensors is there, and is no file of weights"));
  std::ofstream(path_) << "";
  EXPECT_EQ(CheckPlaceOfWeights(path_, 1), absl::OkStatus());
  ASSERT_EQ(Place(), absl::OkStatus());
  EXPECT_EQ(CheckPlaceOfWeights(path_, 1), absl::OkStatus());
}

TEST_F(FinalWeightsTest, ADiskWithoutRoomIsNoticedBefore) {
  const absl::Status status = CheckPlaceOfWeights(path_, int64_t{1} << 60);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(status.message(), ::testing::HasSubstr("the weights take 1152921504606846976 bytes"));
}

TEST_F(FinalWeightsTest, WhatWasThereBeforeIsReplaced) {
  std::ofstream(path_) << "of another job";
  EXPECT_EQ(Place(), absl::OkStatus());
  EXPECT_EQ(coordinator_.weights.sha256(), Sha256Hex(Contents()));
  EXPECT_THAT(names(), ElementsAre("model.safetensors"));
}

TEST_F(FinalWeightsTest, AGenerationThatIsOverLeavesNothing) {
  coordinator_.refusal = absl::FailedPreconditionError("generation 1 is stale, current is 2");
  EXPECT_EQ(Place(), coordinator_.refusal);
  EXPECT_THAT(names(), IsEmpty());
}

// For example a rank that was suspended between registering and renaming.
TEST_F(FinalWeightsTest, OneThatIsOverBeforeItsFileIsInPlaceGivesBackWhatItsSuccessorPutThere) {
  std::ofstream(path_) << "of generation 2";
  coordinator_.refusal_of_next = absl::FailedPreconditionError("generation 1 is stale");
  EXPECT_EQ(Place(), coordinator_.refusal_of_next);
  EXPECT_EQ(Contents(), "of generation 2");
  EXPECT_THAT(names(), ElementsAre("model.safetensors"));
}

TEST_F(FinalWeightsTest, OneThatIsOverBeforeAnyFileIsInPlaceTakesItsOwnAway) {
  coordinator_.refusal_of_next = absl::FailedPreconditionError("generation 1 is stale");
  EXPECT_EQ(Place(), coordinator_.refusal_of_next);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(FinalWeightsTest, TheCoordinatorGetsTheTensorsOfTheFileAndItsTexts) {
  client::FakeParameters parameters;
  client::InProcess server(parameters);
  const std::unique_ptr<client::Connection> connection = server.Connect();
  const auto encoded = EncodeWeights(model_, /*steps=*/7, {{"dp.model", "{}"}});
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  ASSERT_EQ(PublishWeights(*encoded, 7, environment_, *connection, Clock::System(), pause_),
            absl::OkStatus());
  ASSERT_EQ(parameters.sets.size(), 1u);
  const client::FakeParameters::Kept& kept = parameters.sets[{1, ""}].front();
  EXPECT_EQ(kept.version.step(), 7);
  EXPECT_EQ(kept.version.metadata().at("dp.model"), "{}");
  EXPECT_TRUE(encoded->ends_with(kept.data));
  EXPECT_EQ(kept.version.tensors_size(), static_cast<int>(DecodeSafetensors(*encoded)->size()));
}

TEST_F(FinalWeightsTest, ACoordinatorOfAnEarlierReleaseKeepsNone) {
  const auto encoded = EncodeWeights(model_, /*steps=*/7, {});
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  EXPECT_EQ(
      PublishWeights(*encoded, 7, environment_, coordinator_.connection(), Clock::System(), pause_)
          .code(),
      absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace dp::trainer
