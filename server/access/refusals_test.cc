#include "server/access/refusals.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
const absl::Status kWhy = absl::PermissionDeniedError("it belongs to bob");

class RefusalsTest : public testing::Test {
 protected:
  static Caller User(const std::string& name) {
    return {.kind = Caller::Kind::kCertificate,
            .identity = {security::Role::kUser, name},
            .peer = "ipv4:10.0.0.1:5"};
  }
  // As many different ones at once. Returns how many lines they gave in the log.
  int64_t LinesOf(int refusals, absl::Time at) {
    testing::internal::CaptureStderr();
    for (int i = 0; i < refusals; ++i) {
      refusals_.Add(User(absl::StrCat("user", ++users_)), Rpc::kJobsCancel, kWhy, at);
    }
    const std::string log = testing::internal::GetCapturedStderr();
    return std::count(log.begin(), log.end(), '\n');
  }

  Refusals refusals_;
  int users_ = 0;
};

TEST_F(RefusalsTest, ARefusalSaysWhoCalledWhatFromWhereAndWhyNot) {
  testing::internal::CaptureStderr();
  refusals_.Add(User("ann"), Rpc::kJobsCancel, kWhy, kNow);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("event=call_refused rpc=Jobs.Cancel caller=\"user ann\" "
                        "peer=ipv4:10.0.0.1:5 reason=\"it belongs to bob\""));
  const RefusedCall call = refusals_.Latest().at(0);
  EXPECT_EQ(call.caller + " " + call.peer, "user ann ipv4:10.0.0.1:5");
  EXPECT_EQ(call.rpc, Rpc::kJobsCancel);
  EXPECT_EQ(call.reason, "it belongs to bob");
  EXPECT_EQ(call.at, kNow);
}

TEST_F(RefusalsTest, RepetitionsAreCountedAndLoggedOnce) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    refusals_.Add(User("ann"), Rpc::kJobsCancel, kWhy, kNow + absl::Seconds(i));
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1);
  ASSERT_EQ(refusals_.Latest().size(), 1u);
  EXPECT_EQ(refusals_.Latest()[0].count, 3u);
  EXPECT_EQ(refusals_.Latest()[0].at, kNow + absl::Seconds(2));
}

TEST_F(RefusalsTest, AnotherCallerRpcOrReasonIsAnotherRefusal) {
  refusals_.Add(User("ann"), Rpc::kJobsCancel, kWhy, kNow);
  refusals_.Add(User("bob"), Rpc::kJobsCancel, kWhy, kNow);
  refusals_.Add(User("bob"), Rpc::kJobsHold, kWhy, kNow);
  refusals_.Add(User("bob"), Rpc::kJobsHold, absl::UnauthenticatedError("revoked"), kNow);
  EXPECT_EQ(refusals_.Latest().size(), 4u);
}

TEST_F(RefusalsTest, CallsThatAlternateAreOneRefusalEach) {
  for (int i = 0; i < 3; ++i) {
    refusals_.Add(User("ann"), Rpc::kJobsCancel, kWhy, kNow + absl::Seconds(2 * i));
    refusals_.Add(User("ann"), Rpc::kJobsHold, kWhy, kNow + absl::Seconds(2 * i + 1));
  }
  refusals_.Add(User("ann"), Rpc::kJobsCancel, kWhy, kNow + absl::Seconds(6));
  ASSERT_EQ(refusals_.Latest().size(), 2u);
  EXPECT_EQ(refusals_.Latest()[0].rpc, Rpc::kJobsHold);  // the last call of each decides
  EXPECT_EQ(refusals_.Latest()[0].count, 3u);
  EXPECT_EQ(refusals_.Latest()[1].count, 4u);
}

TEST_F(RefusalsTest, ACallerWithManyReasonsLeavesTheRefusalsOfOthers) {
  refusals_.Add(User("bob"), Rpc::kJobsCancel, kWhy, kNow);
  for (size_t i = 0; i < 2 * Refusals::kKept; ++i) {
    refusals_.Add(User("ann"), Rpc::kJobsGet, absl::PermissionDeniedError(absl::StrCat(i)), kNow);
  }
  const std::deque<RefusedCall> latest = refusals_.Latest();
  ASSERT_EQ(latest.size(), Refusals::kKeptOfCaller + 1);
  EXPECT_EQ(latest.front().caller, "user bob");
  EXPECT_EQ(latest.back().reason, absl::StrCat(2 * Refusals::kKept - 1));
}

TEST_F(RefusalsTest, StrangersAtManyAddressesTakeNeitherPlaceNorLinesFromOthers) {
  refusals_.Add(User("bob"), Rpc::kJobsCancel, kWhy, kNow);
  Caller stranger;
  for (size_t i = 0; i < 2 * Refusals::kKept; ++i) {
    stranger.peer = absl::StrCat("ipv4:127.0.", i / 250, ".", i % 250, ":5");
    refusals_.Add(stranger, Rpc::kJobsGet, kWhy, kNow);
  }
  ASSERT_EQ(refusals_.Latest().size(), Refusals::kKeptOfStrangers + 1);
  EXPECT_EQ(refusals_.Latest().front().caller, "user bob");
  EXPECT_EQ(refusals_.Latest().back().peer, stranger.peer);
  testing::internal::CaptureStderr();
  refusals_.Add(User("bob"), Rpc::kJobsHold, kWhy, kNow);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("caller=\"user bob\""));
}

TEST_F(RefusalsTest, ARefusalThatRepeatsIsLoggedNowAndThen) {
  testing::internal::CaptureStderr();
  for (int minute = 0; minute <= 10; ++minute) {
    refusals_.Add(User("ann"), Rpc::kJobsCancel, kWhy, kNow + absl::Minutes(minute));
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2);
}

TEST_F(RefusalsTest, AConnectionThatWasShutDownIsARefusalWithoutRpc) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) refusals_.AddConnection("a client", "10.0.0.1:5", kWhy, kNow);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("event=connection_shut_down peer=10.0.0.1:5 reason=\"it belongs to bob\""));
  ASSERT_EQ(refusals_.Latest().size(), 1u);
  EXPECT_EQ(refusals_.Latest()[0].rpc, std::nullopt);
  EXPECT_EQ(refusals_.Latest()[0].count, 3u);
}

TEST_F(RefusalsTest, TheOldestAreForgotten) {
  (void)LinesOf(Refusals::kKept + 1, kNow);
  ASSERT_EQ(refusals_.Latest().size(), Refusals::kKept);
  EXPECT_EQ(refusals_.Latest().front().caller, "user user2");
  EXPECT_EQ(refusals_.Latest().back().caller, absl::StrCat("user user", Refusals::kKept + 1));
}

TEST_F(RefusalsTest, TextsOfCallersAreCutBetweenTwoCharacters) {
  const std::string text(1 << 20, 'x');
  std::string umlauts = "a";
  while (umlauts.size() < 2 * Refusals::kTextBytesMax) umlauts += "\xC3\xA4";
  refusals_.Add(User(text), Rpc::kAccessEnroll, absl::InvalidArgumentError(umlauts), kNow);
  const RefusedCall call = refusals_.Latest().at(0);
  EXPECT_EQ(call.caller.size(), Refusals::kTextBytesMax);
  EXPECT_EQ(call.reason, umlauts.substr(0, Refusals::kTextBytesMax - 1));
}

TEST_F(RefusalsTest, AFloodGivesFewLinesInTheLog) {
  EXPECT_EQ(LinesOf(2 * Refusals::kLinesAtOnce, kNow), Refusals::kLinesAtOnce);
  EXPECT_EQ(LinesOf(10, kNow + Refusals::kLineEvery / 2), 0);
  EXPECT_EQ(LinesOf(10, kNow + 3 * Refusals::kLineEvery), 3);
  EXPECT_EQ(LinesOf(2 * Refusals::kLinesAtOnce, kNow + absl::Hours(1)), Refusals::kLinesAtOnce);
}

TEST_F(RefusalsTest, AClockThatGoesBackGivesNoFurtherLines) {
  (void)LinesOf(Refusals::kLinesAtOnce, kNow);
  EXPECT_EQ(LinesOf(10, kNow - absl::Hours(1)), 0);
}

}  // namespace
}  // namespace dp::server
