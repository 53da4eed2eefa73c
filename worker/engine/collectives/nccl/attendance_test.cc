#include "worker/engine/collectives/nccl/attendance.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Rank 0 of four listens from second 0 on, with a patience of 2 seconds.
class AttendanceTest : public ::testing::Test {
 protected:
  AttendanceTest() { attendance_.Listen(At(0)); }

  static absl::Time At(double second) {
    return absl::UnixEpoch() + absl::Hours(1) + absl::Seconds(second);
  }
  void Hear(int rank, int64_t arrived, int64_t beat, double second) {
    attendance_.Hear(rank, {.arrived = arrived, .beat = beat}, At(second));
  }
  void HearOver(int rank) { attendance_.Hear(rank, {.beat = 9, .over = Over::kGaveUp}, At(0)); }

  Attendance attendance_{0, 4, absl::Seconds(2)};
};

TEST_F(AttendanceTest, NobodyIsSilentBeforeThePatienceHasPassed) {
  EXPECT_THAT(attendance_.Silent(At(1.9)), IsEmpty());
  EXPECT_THAT(attendance_.Silent(At(2)), ElementsAre(1, 2, 3));
}

TEST_F(AttendanceTest, WhatStoodThereBeforeIsNoSignOfLife) {
  Hear(1, 5, 70, 0);
  Hear(2, 5, 70, 0);
  Hear(2, 5, 71, 1);
  EXPECT_THAT(attendance_.Silent(At(2.5)), ElementsAre(1, 3));
}

TEST_F(AttendanceTest, WhoFallsSilentLaterIsSilentAPatienceLater) {
  for (int r : {1, 2, 3}) Hear(r, 5, 1, 1);
  Hear(3, 5, 2, 2);
  EXPECT_THAT(attendance_.Silent(At(3)), ElementsAre(1, 2));
  EXPECT_THAT(attendance_.Silent(At(4)), ElementsAre(1, 2, 3));
}

TEST_F(AttendanceTest, MissingAreTheSilentAndThoseBehindButNotWhoHasGivenUp) {
  Hear(1, 6, 1, 1);
  Hear(2, 5, 1, 1);
  HearOver(3);
  EXPECT_THAT(attendance_.Missing(6, Over::kGaveUp, At(1.5)), ElementsAre(2));
  EXPECT_THAT(attendance_.Missing(6, Over::kGaveUp, At(9)), ElementsAre(1, 2));
}

TEST_F(AttendanceTest, WhoGaveUpAfterOthersRanOutOfTimeIsMissingWhereItIsBehind) {
  attendance_.Hear(1, {.arrived = 6, .beat = 1, .over = Over::kOutOfTime}, At(1));
  attendance_.Hear(2, {.arrived = 5, .beat = 1, .over = Over::kGaveUp}, At(1));
  attendance_.Hear(3, {.arrived = 6, .beat = 1, .over = Over::kGaveUp}, At(1));
  EXPECT_THAT(attendance_.Missing(6, Over::kGaveUp, At(1)), ElementsAre(2));
}

TEST_F(AttendanceTest, WhoGaveUpBecauseThisRankRanOutOfTimeIsMissing) {
  for (int r : {1, 2}) attendance_.Hear(r, {.arrived = 6, .beat = 1}, At(1));
  attendance_.Hear(3, {.arrived = 5, .beat = 1, .over = Over::kGaveUp}, At(1));
  EXPECT_THAT(attendance_.Missing(6, Over::kOutOfTime, At(1)), ElementsAre(3));
  EXPECT_THAT(attendance_.Missing(6, Over::kGaveUp, At(1)), IsEmpty());
}

TEST_F(AttendanceTest, OfOneThatHadComeItIsNotKnownWhetherItDied) {
  HearOver(1);
  HearOver(2);
  Hear(3, 6, 1, 1);
  EXPECT_FALSE(attendance_.Complete(6, At(1.5)));
  EXPECT_TRUE(attendance_.Complete(6, At(3)));    // silent by now
  EXPECT_TRUE(attendance_.Complete(7, At(1.5)));  // it lives and is behind
}

TEST_F(AttendanceTest, ListeningAgainForgetsWhoWasHeard) {
  Hear(1, 5, 3, 1);
  attendance_.Listen(At(100));
  EXPECT_THAT(attendance_.Silent(At(101)), IsEmpty());
  EXPECT_THAT(attendance_.Silent(At(102)), ElementsAre(1, 2, 3));
}

TEST(PresenceTest, AValueOfTheStoreSurvivesTheRoundTrip) {
  for (const Presence& presence : {Presence{}, Presence{.arrived = 12, .beat = 3},
                                   Presence{.arrived = 1, .beat = 9, .over = Over::kOutOfTime}})
    EXPECT_EQ(PresenceFromText(ToText(presence)), presence);
}

TEST(PresenceTest, WhatIsNoneIsRefused) {
  for (const char* text :
       {"", "1", "1 2", "1 2 3", "a 2 1", "1 2 1 ", "1 2 1 4", "1 2 3", "1 2 -1", "1  1"})
    EXPECT_FALSE(PresenceFromText(text).has_value()) << text;
}

}  // namespace
}  // namespace dp::engine
