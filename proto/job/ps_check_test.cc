#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job/job_check.h"
#include "proto/job/testing/parsed_job.h"

namespace dp {
namespace {

using ::testing::HasSubstr;

v1::PsStrategySpec Filled(const std::string& strategy) {
  return Parsed(kMinimal, {"train.strategy=" + strategy}).spec.train().strategy().ps();
}

TEST(PsCheckTest, PsIsFilledIn) {
  EXPECT_EQ(Filled("ps").mode(), "sync");
  EXPECT_EQ(Filled("ps").publish_every(), 100);
  EXPECT_FALSE(Filled("ps").has_max_staleness());
  EXPECT_EQ(Filled("{ps: {mode: bounded}}").max_staleness(), 4);
  EXPECT_EQ(CheckJob(Parsed(kMinimal, {"train.strategy=ps"})), absl::OkStatus());
  EXPECT_EQ(CheckJob(Parsed(kMinimal, {"train.strategy={ps: {mode: bounded, maxStaleness: 0}}"})),
            absl::OkStatus());
}

TEST(PsCheckTest, PsIsChecked) {
  EXPECT_THAT(ErrorSetting("train.strategy={ps: {mode: fast}}"),
              HasSubstr("mode is \"fast\"; expected sync, async, bounded"));
  EXPECT_THAT(ErrorSetting("train.strategy={ps: {maxStaleness: 2}}"),
              HasSubstr("maxStaleness is for mode: bounded, and the mode is \"sync\""));
  EXPECT_THAT(ErrorSetting("train.strategy={ps: {mode: bounded, maxStaleness: -1}}"),
              HasSubstr("maxStaleness is -1; expected 0 to"));
  EXPECT_THAT(ErrorSetting("train.strategy={ps: {publishEvery: 0}}"),
              HasSubstr("publishEvery is 0; expected 1 to"));
}

TEST(PsCheckTest, FieldsOfAStateOnTheRanksAreRejected) {
  for (const std::string field :
       {"train.checkpoint={dir: /a, everySteps: 5}", "train.ema={decay: 0.9}", "train.trace=/a",
        "train.earlyStop={}"}) {
    const absl::Status status = CheckJob(Parsed(kMinimal, {"train.strategy=ps", field}));
    EXPECT_THAT(status.message(), HasSubstr("does not go with this train.strategy.ps")) << field;
  }
}

TEST(PsCheckTest, RanksThatStepByThemselvesComputeNothingTogether) {
  const std::string weights = "train.loss.crossEntropy.ignoreIndex=255";
  EXPECT_EQ(CheckJob(Parsed(kMinimal, {"train.strategy=ps", weights})), absl::OkStatus());
  EXPECT_THAT(CheckJob(Parsed(kMinimal, {"train.strategy={ps: {mode: async}}", weights})).message(),
              HasSubstr("its ranks take their steps by themselves"));
}

}  // namespace
}  // namespace dp
