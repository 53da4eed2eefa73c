#include "client/dpctl/testing/dpctl_test.h"

namespace dp::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LogsTest : public DpctlTest {
 protected:
  LogsTest() { AddJob(7, R"(state: JOB_STATE_RUNNING spec { name: "cnn" ranks: 5 })"); }
};

constexpr char kFirst[] = R"(
  chunks { generation: 1 rank: 0 stream: LOG_STREAM_STDOUT data: "hello\nhal" }
  chunks { generation: 1 rank: 1 stream: LOG_STREAM_STDERR data: "warning\n" }
  next { generation: 1 rank: 0 stream: LOG_STREAM_STDOUT offset: 9 })";
constexpr char kSecond[] = R"(
  chunks { generation: 1 rank: 0 stream: LOG_STREAM_STDOUT offset: 9 data: "f\nend" }
  finished: true)";

TEST_F(LogsTest, LinesCarryTheirRank) {
  AddLogPage(kFirst);
  AddLogPage(kSecond);
  const Result result = Dpctl("logs -f 7");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "[0] hello\n[1] warning\n[0] half\n[0] end\n");
}

TEST_F(LogsTest, ReadingGoesOnByPositionThroughARestart) {
  AddLogPage(kFirst);
  AddLogPage(kSecond);
  coordinator_.on_read = [this] { coordinator_.calls_lost = 2; };
  EXPECT_EQ(Dpctl("logs -f 7").out, "[0] hello\n[1] warning\n[0] half\n[0] end\n");
  ASSERT_EQ(coordinator_.log_reads.size(), 2u);
  EXPECT_EQ(coordinator_.log_reads[1].from(0).offset(), 9u);
}

TEST_F(LogsTest, WithoutFollowItEndsWithWhatIsThere) {
  AddLogPage(kFirst);
  AddLogPage("");
  const Result result = Dpctl("logs 7");
  EXPECT_EQ(result.out, "[0] hello\n[1] warning\n[0] hal\n");
  EXPECT_EQ(coordinator_.log_reads[0].timeout().seconds(), 0);
}

TEST_F(LogsTest, FlagsChooseRanksStreamsAndTail) {
  AddLogPage("finished: true");
  Dpctl("logs cnn --rank 0,2-4 --tail 5 --stderr");
  const v1::ReadLogsRequest& request = coordinator_.log_reads.at(0);
  EXPECT_THAT(request.ranks(), ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(request.streams(), ElementsAre(v1::LOG_STREAM_STDERR));
  EXPECT_EQ(request.tail_lines(), 5);
}

TEST_F(LogsTest, ByDefaultBothStreamsAreRead) {
  AddLogPage("finished: true");
  Dpctl("logs 7");
  EXPECT_THAT(coordinator_.log_reads.at(0).streams(),
              ElementsAre(v1::LOG_STREAM_STDOUT, v1::LOG_STREAM_STDERR));
}

TEST_F(LogsTest, TheLatestGenerationIsReadUnlessAnotherIsAskedFor) {
  coordinator_.jobs.at(7).set_generation(3);
  AddLogPage("finished: true");
  AddLogPage("finished: true");
  Dpctl("logs 7");
  Dpctl("logs 7 --generation 2");
  EXPECT_EQ(coordinator_.log_reads.at(0).since_generation(), 3u);
  EXPECT_EQ(coordinator_.log_reads.at(0).generation(), 0u);
  EXPECT_EQ(coordinator_.log_reads.at(1).generation(), 2u);
  EXPECT_THAT(Dpctl("logs 7 --generation 4").err, HasSubstr("job 7 has had 3 so far, not 4"));
}

TEST_F(LogsTest, FollowingGoesOnWithTheNextGenerationAndSaysSo) {
  AddLogPage(R"(chunks { generation: 1 data: "old\n" } chunks { generation: 2 data: "new\n" }
                finished: true)");
  const Result result = Dpctl("logs -f 7");
  EXPECT_EQ(result.out, "[0] old\n[0] new\n");
  EXPECT_EQ(result.err, "dpctl: job 7 goes on as generation 2\n");
}

TEST_F(LogsTest, RanksThatAreNoneAreAUsageError) {
  for (const std::string ranks : {"x", "3-1", "-1", "1,,2", "0-99999999"}) {
    const Result result = Dpctl("logs 7 --rank=" + ranks);
    EXPECT_EQ(result.code, 2) << ranks;
    EXPECT_THAT(result.err, HasSubstr("is no rank")) << ranks;
  }
}

TEST_F(LogsTest, ARankThatTheJobDoesNotHaveIsAUsageError) {
  const Result result = Dpctl("logs 7 --rank 0,3-5");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "dpctl: --rank: job 7 has no rank 5; its world size is 5, and ranks count from 0\n");
  EXPECT_TRUE(coordinator_.log_reads.empty());
}

TEST_F(LogsTest, JsonIsOneObjectALine) {
  AddLogPage(kSecond);
  EXPECT_EQ(Dpctl("logs 7 -o json").out,
            "{\"generation\":1,\"rank\":0,\"host\":\"\",\"stream\":\"stdout\",\"line\":\"f\"}\n"
            "{\"generation\":1,\"rank\":0,\"host\":\"\",\"stream\":\"stdout\",\"line\":\"end\"}\n");
}

TEST_F(LogsTest, AReaderThatHasHadEnoughEndsIt) {
  AddLogPage(kFirst);
  AddLogPage(kSecond);
  out_.setstate(std::ios::badbit);
  EXPECT_EQ(Dpctl("logs -f 7").code, 0);
  EXPECT_EQ(coordinator_.log_reads.size(), 0u);
}

}  // namespace
}  // namespace dp::ctl
