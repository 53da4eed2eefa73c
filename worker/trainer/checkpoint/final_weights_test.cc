#include "worker/trainer/checkpoint/final_weights.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/checkpoint/sha256.h"
#include "worker/trainer/testing/fake_checkpoints.h"
#include "worker/trainer/testing/over_cpu.h"
#include "worker/trainer/testing/striped_images.h"

namespace dp::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class FinalWeightsTest : public ::testing::Test {
 protected:
  FinalWeightsTest() {
    fs::remove_all(directory_);
    fs::create_directory(directory_);
    environment_.job = JobId(1);
    environment_.generation = Generation(1);
  }

  absl::Status Publish() {
    return PublishWeights(path_, model_, environment_, coordinator_.connection(), Clock::System(),
                          pause_);
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

TEST_F(FinalWeightsTest, ADeviceThatFailsWhileItIsReadLeavesNone) {
  model_.device = std::make_unique<FailingDevice>(/*reads=*/0);
  EXPECT_EQ(Publish(), FailingDevice::Failure());
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(FinalWeightsTest, TheFileInItsPlaceIsTheOneOnRecord) {
  EXPECT_EQ(Publish(), absl::OkStatus());
  EXPECT_EQ(coordinator_.weights.path(), path_);
  EXPECT_EQ(coordinator_.weights.sha256(), Sha256Hex(Contents()));
  EXPECT_THAT(names(), ElementsAre("model.safetensors"));
}

TEST_F(FinalWeightsTest, WhatWasThereBeforeIsReplaced) {
  std::ofstream(path_) << "of another job";
  EXPECT_EQ(Publish(), absl::OkStatus());
  EXPECT_EQ(coordinator_.weights.sha256(), Sha256Hex(Contents()));
  EXPECT_THAT(names(), ElementsAre("model.safetensors"));
}

TEST_F(FinalWeightsTest, AGenerationThatIsOverLeavesNothing) {
  coordinator_.refusal = absl::FailedPreconditionError("generation 1 is stale, current is 2");
  EXPECT_EQ(Publish(), coordinator_.refusal);
  EXPECT_THAT(names(), IsEmpty());
}

// For example a rank that was suspended between registering and renaming.
TEST_F(FinalWeightsTest, OneThatIsOverBeforeItsFileIsInPlaceGivesBackWhatItsSuccessorPutThere) {
  std::ofstream(path_) << "of generation 2";
  coordinator_.refusal_of_next = absl::FailedPreconditionError("generation 1 is stale");
  EXPECT_EQ(Publish(), coordinator_.refusal_of_next);
  EXPECT_EQ(Contents(), "of generation 2");
  EXPECT_THAT(names(), ElementsAre("model.safetensors"));
}

TEST_F(FinalWeightsTest, OneThatIsOverBeforeAnyFileIsInPlaceTakesItsOwnAway) {
  coordinator_.refusal_of_next = absl::FailedPreconditionError("generation 1 is stale");
  EXPECT_EQ(Publish(), coordinator_.refusal_of_next);
  EXPECT_THAT(names(), IsEmpty());
}

}  // namespace
}  // namespace dp::trainer
