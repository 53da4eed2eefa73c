#include "server/core/checkpoints.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace dp::core {
namespace {

class CheckpointsTest : public ::testing::Test {
 protected:
  bool Register(uint64_t generation, int64_t step, int keep = 3, const std::string& best = "") {
    return checkpoints_.Register({{JobId(1), Generation(generation), 0},
                                  step,
                                  absl::StrCat("/ckpt/step-", step, "-generation-", generation),
                                  std::string(64, 'a'),
                                  100,
                                  keep,
                                  best},
                                 absl::UnixEpoch());
  }
  // "generation/step", oldest first.
  std::string all() const {
    return absl::StrJoin(checkpoints_.all(), " ", [](std::string* out, const Checkpoint& one) {
      absl::StrAppend(out, one.generation.value(), "/", one.step);
    });
  }

  // The same of the best one, with its words.
  std::string best() const {
    const Checkpoint* one = checkpoints_.best();
    if (one == nullptr) return "none";
    return absl::StrCat(one->generation.value(), "/", one->step, " ", one->best);
  }

  Checkpoints checkpoints_;
};

TEST_F(CheckpointsTest, TheOneRegisteredLastIsTheLatest) {
  EXPECT_EQ(checkpoints_.latest(), nullptr);
  Register(1, 10);
  Register(1, 20);
  EXPECT_EQ(checkpoints_.latest()->step, 20);
}

TEST_F(CheckpointsTest, TheOldestGoBeyondWhatIsKept) {
  for (const int step : {10, 20, 30, 40}) Register(1, step);
  EXPECT_EQ(all(), "1/20 1/30 1/40");
  Register(1, 50, /*keep=*/1);
  EXPECT_EQ(all(), "1/50");
}

TEST_F(CheckpointsTest, ARepetitionChangesNothingHoweverLate) {
  EXPECT_TRUE(Register(1, 10));
  EXPECT_TRUE(Register(1, 20));
  EXPECT_FALSE(Register(1, 20));
  EXPECT_FALSE(Register(1, 10));
  EXPECT_EQ(all(), "1/10 1/20");
}

// Generation 2 could not read steps 20 and 30, and resumed from step 10.
TEST_F(CheckpointsTest, ANewGenerationTakesThePlaceOfStepsThatItTrainedAgain) {
  for (const int step : {10, 20, 30}) Register(1, step);
  EXPECT_TRUE(Register(2, 20));
  EXPECT_EQ(all(), "1/10 2/20");
}

TEST_F(CheckpointsTest, TheBestStaysUntilAnotherOneIs) {
  EXPECT_EQ(best(), "none");
  EXPECT_TRUE(Register(1, 10, /*keep=*/1, "loss 0.5"));
  EXPECT_EQ(all(), "1/10");
  for (const int step : {20, 30}) Register(1, step, /*keep=*/1);
  EXPECT_EQ(all(), "1/30");
  EXPECT_EQ(best(), "1/10 loss 0.5");
  EXPECT_TRUE(Register(1, 40, /*keep=*/1, "loss 0.4"));
  EXPECT_EQ(best(), "1/40 loss 0.4");
  EXPECT_FALSE(Register(1, 40, /*keep=*/1, "loss 0.4"));
  EXPECT_FALSE(Register(1, 10, /*keep=*/1, "loss 0.5"));
  EXPECT_EQ(best(), "1/40 loss 0.4");
}

TEST_F(CheckpointsTest, TheLatestMayBecomeTheBestLater) {
  Register(1, 10);
  EXPECT_TRUE(Register(1, 10, /*keep=*/3, "loss 0.5"));
  EXPECT_EQ(all(), "1/10");
  EXPECT_EQ(best(), "1/10 loss 0.5");
}

// Generation 2 has resumed from step 10. The best one of generation 1 is still there.
TEST_F(CheckpointsTest, TheBestOutlivesItsGeneration) {
  Register(1, 10);
  Register(1, 20, /*keep=*/3, "loss 0.5");
  EXPECT_TRUE(Register(2, 15));
  EXPECT_EQ(all(), "1/10 2/15");
  EXPECT_EQ(best(), "1/20 loss 0.5");
  EXPECT_TRUE(Register(2, 20, /*keep=*/3, "loss 0.4"));
  EXPECT_EQ(best(), "2/20 loss 0.4");
}

TEST_F(CheckpointsTest, WhatCannotBeIsRefusedWithItsField) {
  RegisterCheckpoint command{{JobId(1), Generation(1), 0}, 10,  "/ckpt",
                             std::string(64, 'a'),         100, 3};
  EXPECT_TRUE(CheckRegistration(command).ok());
  command.keep = 0;
  EXPECT_EQ(CheckRegistration(command).message(), "keep is 0; it must be from 1 to 1000");
  command = {{JobId(1), Generation(1), 0}, 10, "ckpt", std::string(64, 'a'), 100, 3};
  EXPECT_EQ(CheckRegistration(command).code(), absl::StatusCode::kInvalidArgument);
  command = {{JobId(1), Generation(1), 0}, 10, "/ckpt", "abc", 100, 3};
  EXPECT_EQ(CheckRegistration(command).message(), "sha256 is no 64 hex digits");
}

}  // namespace
}  // namespace dp::core
