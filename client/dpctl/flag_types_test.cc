#include "client/dpctl/flag_types.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

TEST(SinceFlagTest, ADurationIsSoLongAgo) {
  EXPECT_EQ(*ReadSince("5m", kNow), kNow - absl::Minutes(5));
  EXPECT_EQ(*ReadSince("1h30m", kNow), kNow - absl::Minutes(90));
  EXPECT_EQ(*ReadSince("0", kNow), kNow);
}

TEST(SinceFlagTest, ATimeIsAsRfc3339WritesIt) {
  EXPECT_EQ(*ReadSince("1970-01-12T13:46:40Z", {}), kNow);
  EXPECT_EQ(*ReadSince("1970-01-12T15:46:40.250+02:00", {}), kNow + absl::Milliseconds(250));
}

TEST(SinceFlagTest, WhatIsNeitherIsNamed) {
  for (const char* text : {"5", "-5m", "yesterday", "2026-11-21", ""}) {
    EXPECT_THAT(std::string(ReadSince(text, kNow).status().message()),
                testing::HasSubstr(std::string("'") + text + "'"));
  }
}

TEST(RanksFlagTest, RanksAreNamedOneByOneOrInRanges) {
  EXPECT_THAT(*ParseRanks("0,2-4"), testing::ElementsAre(0, 2, 3, 4));
  EXPECT_EQ(ParseRanks("0-9999")->size(), 10'000u);
}

// A short text could otherwise name more than the memory holds.
TEST(RanksFlagTest, NobodyNamesMoreRanksThanAJobCanHave) {
  EXPECT_THAT(std::string(ParseRanks("0-9999,0-9999").status().message()),
              testing::HasSubstr("more than 10000 ranks"));
}

}  // namespace
}  // namespace dp::ctl
