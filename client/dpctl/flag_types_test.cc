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

}  // namespace
}  // namespace dp::ctl
