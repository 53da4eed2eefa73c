#include "worker/agent/earlier_exits.h"

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/convert/time.h"
#include "worker/agent/processes/exit_record.h"
#include "worker/agent/spool/log_spool.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const absl::Time kEarlierJobAt = absl::FromUnixSeconds(100);

class EarlierExitsTest : public testing::Test {
 protected:
  static RankKey KeyOf(int rank) { return {JobId(7), Generation(2), rank}; }

  // An exited rank of an earlier daemon.
  void AnExit(int rank, const ExitRecord& record, const Session& session = {5, Incarnation(8)}) {
    const LogSpool spool(directory_.path(), KeyOf(rank));
    ASSERT_TRUE(spool.Create({kEarlierJobAt, session}).ok());
    WriteExitRecord(spool.exit_file(), record);
  }
  std::vector<v1::ReportRankRequest> Exits() const {
    return EarlierExits(directory_.path(), LogSpool::Find(directory_.path()));
  }

  TemporaryDirectory directory_;
};

TEST_F(EarlierExitsTest, AnExitIsReportedForTheDaemonThatRanTheRank) {
  AnExit(3, {.exit = {Exit::How::kCode, 33}});
  std::ofstream(LogSpool(directory_.path(), KeyOf(3)).path(v1::LOG_STREAM_STDERR)) << "no data\n";
  ASSERT_THAT(Exits(), SizeIs(1));
  const v1::ReportRankRequest report = Exits().front();
  EXPECT_EQ(report.worker_id(), 5u);
  EXPECT_EQ(report.incarnation(), 8u);
  EXPECT_EQ(report.job(), 7u);
  EXPECT_EQ(report.generation(), 2u);
  EXPECT_EQ(report.rank(), 3);
  EXPECT_EQ(report.state(), v1::RANK_STATE_EXITED);
  EXPECT_EQ(report.exit().code(), 33);
  EXPECT_FALSE(report.stopped());
  EXPECT_FALSE(report.oom());
  EXPECT_EQ(FromProto(report.job_submitted_at()), kEarlierJobAt);
  EXPECT_THAT(report.last_lines(), ElementsAre("no data"));
}

TEST_F(EarlierExitsTest, ARankThatWasStoppedOrOutOfMemorySaysSo) {
  AnExit(0, {.exit = {Exit::How::kSignal, 15}, .stopped = true});
  AnExit(1, {.exit = {Exit::How::kSignal, 9}, .oom = true, .at_unix_nanos = 1});
  ASSERT_THAT(Exits(), SizeIs(2));
  EXPECT_TRUE(Exits()[0].stopped());
  EXPECT_TRUE(Exits()[1].oom());
}

TEST_F(EarlierExitsTest, TheFirstExitComesFirst) {
  AnExit(0, {.at_unix_nanos = 20});
  AnExit(1, {.at_unix_nanos = 30});
  AnExit(2, {.at_unix_nanos = 10});
  std::vector<int> ranks;
  for (const v1::ReportRankRequest& exit : Exits()) ranks.push_back(exit.rank());
  EXPECT_THAT(ranks, ElementsAre(2, 0, 1));
}

TEST_F(EarlierExitsTest, SpoolsOfEarlierReleasesAndOfRanksThatWereKilledReportNothing) {
  AnExit(0, {}, Session());
  ASSERT_TRUE(
      LogSpool(directory_.path(), KeyOf(1)).Create({kEarlierJobAt, {5, Incarnation(8)}}).ok());
  EXPECT_THAT(Exits(), IsEmpty());
}

}  // namespace
}  // namespace dp::worker
