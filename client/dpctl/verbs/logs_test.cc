#include <algorithm>

#include "absl/strings/str_cat.h"
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

TEST_F(LogsTest, AJobThatIsRemovedMeanwhileIsSaidToBe) {
  AddLogPage(kFirst);
  coordinator_.on_read = [this] { coordinator_.jobs.erase(7); };
  const Result result = Dpctl("logs -f 7");
  EXPECT_EQ(result.out, "[0] hello\n[1] warning\n");
  EXPECT_THAT(result.err,
              HasSubstr("dpctl: job 7 was removed while dpctl followed it: by 'dpctl rm'"));
  EXPECT_EQ(result.code, 102);
}

constexpr char kEscapes[] = R"(
  chunks { generation: 1 rank: 0 stream: LOG_STREAM_STDOUT data: "\033]0;title\a\033[31mred\n" }
  finished: true)";

TEST_F(LogsTest, ATerminalGetsColoursAndNoOtherControlCharacters) {
  out_tty_ = true;
  AddLogPage(kEscapes);
  EXPECT_EQ(Dpctl("logs 7").out, "[0] \\x1b]0;title\\x07\x1b[31mred\x1b[0m\n");
}

TEST_F(LogsTest, AFileAndRawOutputHaveEveryByte) {
  AddLogPage(kEscapes);
  AddLogPage(kEscapes);
  const std::string line = "[0] \x1b]0;title\a\x1b[31mred\n";
  EXPECT_EQ(Dpctl("logs 7").out, line);
  out_tty_ = true;
  EXPECT_EQ(Dpctl("logs 7 --raw").out, line + line);
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

// A stream whose bytes appear with each flush.
class FlushedTo final : public std::stringbuf {
 public:
  explicit FlushedTo(std::string& screen) : screen_(screen) {}

 private:
  int sync() override {
    screen_ += str();
    str("");
    return 0;
  }

  std::string& screen_;
};

TEST_F(LogsTest, TheLinesOfAGenerationComeBeforeTheNewsOfTheNextOne) {
  std::string screen;
  FlushedTo out(screen), err(screen);
  out_.std::ios::rdbuf(&out);
  err_.std::ios::rdbuf(&err);
  AddLogPage(R"(chunks { generation: 1 data: "old\n" } chunks { generation: 2 data: "new\n" }
                finished: true)");
  Dpctl("logs -f 7");
  EXPECT_EQ(screen, "[0] old\ndpctl: job 7 goes on as generation 2\n[0] new\n");
}

TEST_F(LogsTest, RanksThatAreNoneAreAUsageError) {
  for (const std::string ranks : {"x", "3-1", "-1", "1,,2", "0-99999999"}) {
    const Result result = Dpctl("logs 7 --rank=" + ranks);
    EXPECT_EQ(result.code, 2) << ranks;
    EXPECT_THAT(result.err, HasSubstr("is no rank")) << ranks;
  }
}

TEST_F(LogsTest, NoRanksAtAllAreNotTakenForAll) {
  const Result result = Dpctl("logs 7 --rank ");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--rank: it is empty"));
}

TEST_F(LogsTest, ARankThatTheJobDoesNotHaveIsAUsageError) {
  const Result result = Dpctl("logs 7 --rank 0,3-5");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "dpctl: --rank: job 7 has no rank 5; its world size is 5, and ranks count from 0\n");
  EXPECT_TRUE(coordinator_.log_reads.empty());
}

TEST_F(LogsTest, AnEarlierGenerationMayHaveHadMoreRanks) {
  coordinator_.jobs.at(7).set_generation(3);
  AddLogPage("finished: true");
  AddLogPage("finished: true");
  EXPECT_EQ(Dpctl("logs 7 --rank 5 --generation 2").code, 0);
  EXPECT_EQ(Dpctl("logs 7 --rank 5 --generation all").code, 0);
  EXPECT_EQ(coordinator_.log_reads.size(), 2u);
  EXPECT_EQ(Dpctl("logs 7 --rank 5 --generation 3").code, 2);
}

TEST_F(LogsTest, JsonIsOneObjectALine) {
  AddLogPage(kSecond);
  EXPECT_EQ(Dpctl("logs 7 -o json").out,
            "{\"generation\":1,\"rank\":0,\"host\":\"\",\"stream\":\"stdout\",\"time\":null,"
            "\"line\":\"f\"}\n"
            "{\"generation\":1,\"rank\":0,\"host\":\"\",\"stream\":\"stdout\",\"time\":null,"
            "\"line\":\"end\"}\n");
  EXPECT_TRUE(coordinator_.log_reads.at(0).with_times());
}

TEST_F(LogsTest, AllGenerationsAreReadWhereTheyAreAskedFor) {
  coordinator_.jobs.at(7).set_generation(3);
  AddLogPage("finished: true");
  Dpctl("logs 7 --generation all");
  EXPECT_EQ(coordinator_.log_reads.at(0).since_generation(), 0u);
  EXPECT_EQ(coordinator_.log_reads.at(0).generation(), 0u);
  EXPECT_THAT(Dpctl("logs 7 --generation first").err, HasSubstr("'first' is no generation"));
}

TEST_F(LogsTest, SinceIsATimeOrSoLongAgo) {
  AddLogPage("finished: true");
  AddLogPage("finished: true");
  Dpctl("logs 7 --since 1970-01-01T00:01:40Z --tail 3");
  EXPECT_EQ(coordinator_.log_reads.at(0).since().seconds(), 100);
  EXPECT_EQ(coordinator_.log_reads.at(0).tail_lines(), 3);
  Dpctl("logs 7 --since 1h");
  EXPECT_EQ(coordinator_.log_reads.at(1).since().seconds(),
            1767319445);  // 2026-01-02 02:04:05 UTC
  EXPECT_EQ(Dpctl("logs 7 --since yesterday").code, 2);
}

constexpr char kTimed[] = R"(
  chunks { generation: 1 rank: 0 stream: LOG_STREAM_STDOUT offset: 10 data: "old\nstep\nend\n"
           times { offset: 14 time { seconds: 100 nanos: 250000000 } }
           times { offset: 19 time { seconds: 101 } } }
  finished: true)";

TEST_F(LogsTest, TimestampsStandBeforeTheRankAndAreUnknownForOldLines) {
  AddLogPage(kTimed);
  EXPECT_EQ(Dpctl("logs 7 --timestamps").out,
            "- [0] old\n1970-01-01T00:01:40.250Z [0] step\n1970-01-01T00:01:41.000Z [0] end\n");
  EXPECT_TRUE(coordinator_.log_reads.at(0).with_times());
}

TEST_F(LogsTest, ALineThatCameInPiecesHasTheTimeOfItsFirst) {
  AddLogPage(R"(chunks { generation: 1 data: "ha" times { time { seconds: 1 } } })");
  AddLogPage(
      R"(chunks { generation: 1 offset: 2 data: "lf\n" times { offset: 2 time { seconds: 2 } } }
                finished: true)");
  EXPECT_EQ(Dpctl("logs -f 7 --timestamps").out, "1970-01-01T00:00:01.000Z [0] half\n");
}

TEST_F(LogsTest, ALineAboutMissingBytesStandsAlone) {
  for (int i = 0; i < 2; ++i)
    AddLogPage(R"(chunks { generation: 1 stream: LOG_STREAM_STDOUT data: "half" }
                  chunks { generation: 1 stream: LOG_STREAM_STDOUT offset: 4
                           data: "[log cut here]\n" cut_bytes: 9 }
                  chunks { generation: 1 stream: LOG_STREAM_STDOUT offset: 13 data: "end\n" }
                  finished: true)");
  EXPECT_EQ(Dpctl("logs 7").out, "[0] half\n[0] [log cut here]\n[0] end\n");
  EXPECT_THAT(Dpctl("logs 7 -o json").out,
              HasSubstr(R"("time":null,"cutBytes":9,"line":"[log cut here]")"));
}

constexpr char kEqual[] = R"(
  chunks { generation: 1 rank: 0 stream: LOG_STREAM_STDOUT data: "hello\nmine\n"
           times { time { seconds: 1 } } }
  chunks { generation: 1 rank: 1 stream: LOG_STREAM_STDOUT data: "hello\n" }
  chunks { generation: 1 rank: 2 stream: LOG_STREAM_STDOUT data: "hello\n" }
  finished: true)";

TEST_F(LogsTest, EqualLinesOfManyRanksAreShownOnce) {
  AddLogPage(kEqual);
  EXPECT_EQ(Dpctl("logs 7 --dedup").out, "[0-2] hello\n[0] mine\n");
}

TEST_F(LogsTest, EqualLinesHaveTheTimeOfTheFirst) {
  AddLogPage(kEqual);
  EXPECT_EQ(Dpctl("logs -f 7 --dedup --timestamps").out,
            "1970-01-01T00:00:01.000Z [0-2] hello\n1970-01-01T00:00:01.000Z [0] mine\n");
}

TEST_F(LogsTest, EqualLinesAsJsonNameTheirRanks) {
  AddLogPage(kEqual);
  EXPECT_THAT(Dpctl("logs 7 --dedup -o json").out,
              HasSubstr(R"({"generation":1,"ranks":[0,1,2],"hosts":["","",""],"stream":"stdout",)"
                        R"("time":"1970-01-01T00:00:01.000Z","line":"hello"})"));
}

TEST_F(LogsTest, WhileALineIsHeldForOtherRanksFollowingDoesNotWaitForLong) {
  AddLogPage(R"(chunks { generation: 1 data: "hello\n" })");
  AddLogPage("finished: true");
  EXPECT_EQ(Dpctl("logs -f 7 --dedup").out, "[0] hello\n");
  EXPECT_EQ(coordinator_.log_reads.at(0).timeout().seconds(), 10);
  EXPECT_LE(coordinator_.log_reads.at(1).timeout().seconds(), 1);
}

TEST_F(LogsTest, AReaderThatHasHadEnoughEndsIt) {
  AddLogPage(kFirst);
  AddLogPage(kSecond);
  out_.setstate(std::ios::badbit);
  EXPECT_EQ(Dpctl("logs -f 7").code, 0);
  EXPECT_EQ(coordinator_.log_reads.size(), 0u);
}

TEST_F(LogsTest, LinesOfEachGenerationNameTheHostWhereTheirRankRanThen) {
  coordinator_.jobs.at(7).set_generation(2);
  coordinator_.jobs.at(7).add_ranks()->set_host("host-b");
  for (int i = 0; i < 3; ++i)
    AddLogPage(R"(chunks { generation: 1 stream: LOG_STREAM_STDOUT data: "old\n" host: "host-a" }
                  chunks { generation: 1 rank: 1 stream: LOG_STREAM_STDOUT data: "old\n"
                           host: "host-c" }
                  chunks { generation: 2 stream: LOG_STREAM_STDOUT data: "new\n" }
                  finished: true)");
  EXPECT_EQ(Dpctl("logs 7 --generation all").out,
            "[0 host-a] old\n[1 host-c] old\n[0 host-b] new\n");
  out_.str("");
  EXPECT_THAT(Dpctl("logs 7 --generation all --dedup -o json").out,
              HasSubstr(R"("ranks":[0,1],"hosts":["host-a","host-c"])"));
  out_.str("");
  EXPECT_THAT(Dpctl("logs 7 --generation all -o json").out,
              HasSubstr(R"({"generation":1,"rank":0,"host":"host-a",)"));
}

constexpr char kOutstanding[] = R"(
  outstanding { generation: 1 rank: 2 worker: "node1" host: "host-a" spool: "/state/spool/7/1/2"
                stored_bytes: 17 }
  outstanding_ranks: 1)";

TEST_F(LogsTest, OutputThatHasNotArrivedIsSaidAtTheEnd) {
  AddLogPage(absl::StrCat(kSecond, kOutstanding));
  AddLogPage(absl::StrCat("finished: true ", kOutstanding));
  const Result result = Dpctl("logs -f 7");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(
      result.err,
      "dpctl: output of rank 2 on host-a is incomplete: 17 bytes arrived; the rest is on "
      "host-a in /state/spool/7/1/2.*, if that directory still exists; 'dpctl logs 7 --rank 2' "
      "shows it once a dp-worker there has sent it\n");
}

TEST_F(LogsTest, AFollowerWaitsForTheOutputOfALostWorkerBeforeItEnds) {
  AddLogPage(absl::StrCat(kSecond, kOutstanding));
  AddLogPage(absl::StrCat(
      R"(chunks { generation: 1 rank: 2 stream: LOG_STREAM_STDOUT data: "next to last\n" }
         finished: true)",
      kOutstanding));
  AddLogPage(R"(chunks { generation: 1 rank: 2 stream: LOG_STREAM_STDOUT offset: 13 data: "last\n" }
                finished: true)");
  const Result result = Dpctl("logs -f 7");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("[2] next to last\n[2] last\n"));
  EXPECT_EQ(result.err, "");
  EXPECT_FALSE(coordinator_.log_reads.at(0).await_outstanding());
  EXPECT_TRUE(coordinator_.log_reads.at(1).await_outstanding());
  EXPECT_EQ(coordinator_.log_reads.at(1).timeout().seconds(), 5);
}

TEST_F(LogsTest, OnlyStreamsThatAreThereAtTheStartBeginWithTheirTail) {
  AddLogPage(kFirst);
  AddLogPage(kSecond);
  Dpctl("logs -f 7 --tail 1 --since 5m");
  EXPECT_EQ(coordinator_.log_reads.at(0).tail_lines(), 1);
  EXPECT_TRUE(coordinator_.log_reads.at(0).has_since());
  EXPECT_EQ(coordinator_.log_reads.at(1).tail_lines(), 0);
  EXPECT_FALSE(coordinator_.log_reads.at(1).has_since());
}

TEST_F(LogsTest, OutputOfAnEarlierGenerationThatHasNotArrivedIsSaidWithItsNumber) {
  coordinator_.jobs.at(7).set_generation(3);
  AddLogPage(absl::StrCat("finished: true ", kOutstanding));
  EXPECT_THAT(Dpctl("logs 7 --generation all").err,
              AllOf(HasSubstr("output of rank 2 of generation 1 on host-a is incomplete: 17 "),
                    HasSubstr("'dpctl logs 7 --rank 2 --generation 1' shows it once")));
}

TEST_F(LogsTest, NoMoreThanAFewRanksAreNamedWhoseOutputHasNotArrived) {
  std::string page = "finished: true outstanding_ranks: 120 ";
  for (int i = 0; i < 100; ++i) page += "outstanding { generation: 1 host: 'h' } ";
  AddLogPage(page);
  const std::string err = Dpctl("logs 7").err;
  EXPECT_THAT(err, ::testing::EndsWith("dpctl: output of 115 other ranks is incomplete, too\n"));
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 6);
}

TEST_F(LogsTest, WaitAndDescribeSayWhichOutputHasNotArrivedOfAJobThatIsOver) {
  ASSERT_TRUE(
      google::protobuf::TextFormat::ParseFromString(kOutstanding, &coordinator_.outstanding));
  EXPECT_EQ(Dpctl("describe 7").err, "");  // the job runs
  coordinator_.jobs.at(7).set_state(v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(Dpctl("describe 7").err, HasSubstr("output of rank 2 on host-a is incomplete"));
  err_.str("");
  const Result waited = Dpctl("wait 7");
  EXPECT_EQ(waited.code, 0);
  EXPECT_THAT(waited.err, HasSubstr("output of rank 2 on host-a is incomplete"));
}

}  // namespace
}  // namespace dp::ctl
