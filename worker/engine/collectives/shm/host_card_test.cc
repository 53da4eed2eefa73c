#include "worker/engine/collectives/shm/host_card.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::engine {
namespace {

HostCard ACard(const std::string& host_name = "a") {
  return {.layout = "1",
          .kernel = "boot of " + host_name,
          .network = "4:4026531840",
          .user = "1000",
          .host_name = host_name};
}

std::string WhyNot(const std::vector<HostCard>& cards) {
  const absl::Status status = CheckOneHost(cards);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  return std::string(status.message());
}

TEST(HostCardTest, RanksOfOneHostShareMemory) {
  EXPECT_EQ(CheckOneHost({ACard(), ACard(), ACard()}), absl::OkStatus());
  EXPECT_EQ(CheckOneHost({ACard()}), absl::OkStatus());
}

TEST(HostCardTest, RanksOnAnotherHostAreNamedWithBothHosts) {
  EXPECT_EQ(WhyNot({ACard("a"), ACard("b"), ACard("a"), ACard("b")}),
            "the ranks cannot share memory: ranks 0, 2 are on a, ranks 1, 3 are on b, and they run "
            "on different hosts");
}

TEST(HostCardTest, OfThreeHostsTwoAreNamed) {
  EXPECT_EQ(WhyNot({ACard("a"), ACard("b"), ACard("c")}),
            "the ranks cannot share memory: rank 0 is on a, rank 1 is on b, and they run on "
            "different hosts");
}

TEST(HostCardTest, HostsOfOneNameThatWereStartedApartAreTwo) {
  HostCard twin = ACard("a");
  twin.kernel = "another boot";
  EXPECT_FALSE(CheckOneHost({ACard("a"), twin}).ok());
}

TEST(HostCardTest, EveryOtherDifferenceIsSaid) {
  HostCard container = ACard(), stranger = ACard(), older = ACard();
  container.network = "4:7";
  stranger.user = "1001";
  older.layout = "0";
  EXPECT_TRUE(WhyNot({ACard(), container}).ends_with("in different network namespaces"));
  EXPECT_TRUE(WhyNot({ACard(), stranger}).ends_with("they run as users 1000 and 1001"));
  EXPECT_TRUE(WhyNot({ACard(), older}).ends_with("they are of different releases of dp"));
}

TEST(HostCardTest, ARankThatCannotShareSaysWhy) {
  HostCard poor = ACard();
  poor.why_not = "memfd_create: Cannot allocate memory";
  EXPECT_EQ(WhyNot({ACard(), poor}),
            "the ranks cannot share memory: rank 1 on a: memfd_create: Cannot allocate memory");
}

TEST(HostCardTest, ACardReadsAsItWasWritten) {
  HostCard card = ACard();
  card.socket = "dp-shm-00ff";
  card.token = "token";
  const auto read = DecodeHostCard(Encode(card));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, card);
  for (const char* text : {"", "a\nb"})
    EXPECT_EQ(DecodeHostCard(text).status().code(), absl::StatusCode::kInternal) << text;
}

TEST(HostCardTest, TheCardOfALaterReleaseMayHaveMoreLines) {
  HostCard later = ACard();
  later.layout = "later";
  const auto read = DecodeHostCard(Encode(later) + "\nmore");
  ASSERT_TRUE(read.ok());
  EXPECT_THAT(WhyNot({ACard(), *read}), testing::HasSubstr("of different releases of dp"));
}

TEST(HostCardTest, AReasonOfSeveralLinesStaysOneField) {
  HostCard card = ACard();
  card.why_not = "one\ntwo";
  const auto read = DecodeHostCard(Encode(card));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->why_not, "one two");
}

TEST(HostCardTest, TwoCardsOfThisProcessFit) {
  EXPECT_EQ(CheckOneHost({ThisHost(), ThisHost()}), absl::OkStatus());
}

}  // namespace
}  // namespace dp::engine
