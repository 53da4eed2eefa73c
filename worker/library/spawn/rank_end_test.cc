#include "worker/library/spawn/rank_end.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::library {
namespace {

RankEnd Exited(int rank, int code) { return {.rank = rank, .pid = 70 + rank, .exit_code = code}; }
RankEnd Killed(int rank, int signal) { return {.rank = rank, .pid = 70 + rank, .signal = signal}; }
RankEnd Threw(int rank, int64_t at_ns, bool blames_peers = false) {
  RankEnd end = Exited(rank, 1);
  end.thrown = {.text = "no file", .blames_peers = blames_peers, .at_ns = at_ns};
  return end;
}

int CauseOf(const std::vector<RankEnd>& ends) {
  const RankEnd* cause = RootCause(ends);
  return cause == nullptr ? -1 : cause->rank;
}

TEST(RankEndTest, RanksThatEndWellHaveNoCause) {
  EXPECT_EQ(CauseOf({}), -1);
  EXPECT_EQ(CauseOf({Exited(0, 0), Exited(1, 0)}), -1);
}

TEST(RankEndTest, TheFirstExceptionIsTheCause) {
  EXPECT_EQ(CauseOf({Exited(0, 0), Threw(1, 900), Threw(2, 800), Threw(3, 850)}), 2);
}

TEST(RankEndTest, ADeathWithoutAWordExplainsExceptions) {
  EXPECT_EQ(CauseOf({Threw(0, 100), Killed(2, 9)}), 2);
  EXPECT_EQ(CauseOf({Threw(0, 100), Exited(2, 3)}), 2);
}

TEST(RankEndTest, AnExceptionExplainsThoseThatBlamePeers) {
  EXPECT_EQ(CauseOf({Threw(0, 100, true), Threw(1, 200), Threw(2, 50, true)}), 1);
  EXPECT_EQ(CauseOf({Threw(0, 100, true), Threw(2, 50, true)}), 2);
}

TEST(RankEndTest, AnEndThatNobodyKnowsIsAFailure) {
  EXPECT_EQ(CauseOf({Exited(0, 0), RankEnd{.rank = 1, .pid = 71}}), 1);
}

TEST(RankEndTest, TheErrorNamesRankProcessAndFate) {
  const auto said = [](const RankEnd& end) { return std::string(SpawnErrorOf(end).what()); };
  EXPECT_EQ(said(Threw(1, 0)), "spawn: rank 1 (process 71) threw an exception: no file");
  EXPECT_EQ(said(Exited(2, 3)), "spawn: rank 2 (process 72) exited with code 3");
  EXPECT_EQ(said(Killed(0, 9)), "spawn: rank 0 (process 70) was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(said(RankEnd{.rank = 1, .pid = 71}),
            "spawn: rank 1 (process 71) ended, but other code of this process took its exit "
            "status; let spawn alone wait for it");
  const distributed::SpawnError error = SpawnErrorOf(Killed(0, 9));
  EXPECT_EQ(error.kind(), distributed::ErrorKind::kProgramFailed);
  EXPECT_EQ(error.rank(), 0);
  EXPECT_EQ(error.pid(), 70);
  EXPECT_EQ(error.exit_code(), std::nullopt);
  EXPECT_EQ(error.signal(), 9);
}

}  // namespace
}  // namespace dp::library
