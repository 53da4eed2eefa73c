#include "server/core/checkpoints.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace dp::core {
namespace {

class CheckpointsTest : public ::testing::Test {
 protected:
  bool Register(uint64_t generation, int64_t step, int keep = 3) {
    return checkpoints_.Register({{JobId(1), Generation(generation), 0},
                                  step,
                                  absl::StrCat("/ckpt/step-", step, "-generation-", generation),
                                  std::string(64, 'a'),
                                  100,
                                  keep},
                                 absl::UnixEpoch());
  }
  // "generation/step", oldest first.
  std::string all() const {
    return absl::StrJoin(checkpoints_.all(), " ", [](std::string* out, const Checkpoint& one) {
      absl::StrAppend(out, one.generation.value(), "/", one.step);
    });
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
