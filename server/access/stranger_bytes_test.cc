#include "server/access/stranger_bytes.h"

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

const absl::Time kBytesAt = absl::FromUnixSeconds(1'800'000'000);

// 1,000 bytes at once, then 100 each second.
class StrangerBytesTest : public testing::Test {
 protected:
  static StrangerBytes::Limits Small() {
    return {.per_second = 100, .at_once = 1'000, .owes_max = absl::Seconds(30), .hosts = 2};
  }
  bool Owes(const std::string& host, absl::Duration after = {}) const {
    return bytes_.owes_until(host) > kBytesAt + after;
  }

  StrangerBytes bytes_{Small()};
};

TEST_F(StrangerBytesTest, AHostOwesWhatItSendsBeyondWhatItMaySendAtOnce) {
  bytes_.Add("a", 1'000, kBytesAt);
  EXPECT_FALSE(Owes("a"));
  bytes_.Add("a", 200, kBytesAt);
  EXPECT_TRUE(Owes("a"));
  EXPECT_TRUE(Owes("a", absl::Milliseconds(1'999)));
  EXPECT_FALSE(Owes("a", absl::Seconds(2)));
}

TEST_F(StrangerBytesTest, AHostThatRestsMaySendAsMuchAgain) {
  bytes_.Add("a", 1'000, kBytesAt);
  bytes_.Add("a", 500, kBytesAt + absl::Seconds(5));
  EXPECT_FALSE(Owes("a", absl::Seconds(5)));
  bytes_.Add("a", 1'001, kBytesAt + absl::Seconds(100));
  EXPECT_TRUE(Owes("a", absl::Seconds(100)));
}

TEST_F(StrangerBytesTest, HostsDoNotCountForEachOther) {
  bytes_.Add("a", 5'000, kBytesAt);
  EXPECT_TRUE(Owes("a"));
  EXPECT_FALSE(Owes("b"));
}

TEST_F(StrangerBytesTest, ProvenBytesDoNotCount) {
  bytes_.Add("a", 3'000, kBytesAt);
  bytes_.GiveBack("a", 2'500, kBytesAt);
  EXPECT_FALSE(Owes("a"));
  bytes_.Add("a", 501, kBytesAt);
  EXPECT_TRUE(Owes("a"));
}

TEST_F(StrangerBytesTest, WhateverAHostHasSentItOwesNoLongerThanTheBound) {
  bytes_.Add("a", uint64_t{1} << 40, kBytesAt);
  EXPECT_TRUE(Owes("a", absl::Milliseconds(29'999)));
  EXPECT_FALSE(Owes("a", absl::Seconds(30)));
}

TEST_F(StrangerBytesTest, AHostThatIsHeldBackOwesForAsLongAsItCan) {
  bytes_.HoldBack("a", kBytesAt);
  EXPECT_TRUE(Owes("a", absl::Milliseconds(29'999)));
  EXPECT_FALSE(Owes("a", absl::Seconds(30)));
  for (const char* host : {"b", "c"}) bytes_.HoldBack(host, kBytesAt);
  EXPECT_TRUE(Owes("b"));
  EXPECT_FALSE(Owes("c"));
  EXPECT_FALSE(Owes("d"));
}

TEST_F(StrangerBytesTest, OnlyHostsOfTheLastMomentsAreRemembered) {
  for (int i = 0; i < 100; ++i) {
    bytes_.Add(absl::StrCat("host", i), 100, kBytesAt + absl::Seconds(2 * i));
  }
  EXPECT_LE(bytes_.hosts(), 2u);
}

TEST_F(StrangerBytesTest, HostsThatHaveRestedMakeRoomForOthers) {
  for (const char* host : {"a", "b"}) bytes_.Add(host, 900, kBytesAt);
  const absl::Time later = kBytesAt + absl::Hours(1);
  for (const char* host : {"c", "d"}) bytes_.Add(host, 900, later);
  EXPECT_LE(bytes_.owes_until("c"), later);
  EXPECT_LE(bytes_.owes_until("d"), later);
  EXPECT_EQ(bytes_.hosts(), 2u);
}

TEST_F(StrangerBytesTest, HostsBeyondTheBoundShareOneRate) {
  for (const char* host : {"a", "b", "c"}) bytes_.Add(host, 900, kBytesAt);
  EXPECT_FALSE(Owes("d"));
  bytes_.Add("d", 200, kBytesAt);
  EXPECT_TRUE(Owes("c") && Owes("d"));
  EXPECT_FALSE(Owes("a"));
  EXPECT_EQ(bytes_.hosts(), 2u);
}

TEST(StrangerBytesLimitsTest, AMessageOfTheLargestSizeAndAThousandHostsThatJoinAreLetThrough) {
  constexpr uint64_t kBytesOfAJoin = 8'000;  // two connections, with a signing request
  StrangerBytes bytes{StrangerBytes::Limits()};
  bytes.Add("a", kMessageBytesMax, kBytesAt);
  EXPECT_LE(bytes.owes_until("a"), kBytesAt);
  for (int i = 0; i < 1'000; ++i) bytes.Add("gateway", kBytesOfAJoin, kBytesAt);
  EXPECT_LE(bytes.owes_until("gateway"), kBytesAt);
}

}  // namespace
}  // namespace dp::server
