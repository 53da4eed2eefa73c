// Bytes of a stream that are missing: gaps, and cuts at a limit.

#include <filesystem>
#include <fstream>
#include <string>

#include "server/logs/testing/log_store_fixture.h"

namespace dp::server {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using LogGapsTest = LogStoreFixture;

TEST_F(LogGapsTest, BehindAGapALineIsGivenOnceItIsWhole) {
  Append(0, "old\n");
  AppendGap(4, 100);
  Append(104, "par");
  EXPECT_THAT(Text(), Not(HasSubstr("par")));
  Append(107, "tial\n");
  EXPECT_THAT(Text(), EndsWith("partial\n"));
}

TEST_F(LogGapsTest, PastItsLimitAJobsStreamIsCutWithAMark) {
  Reopen({.job_bytes_max = 8});
  EXPECT_EQ(Append(0, "12345\n"), 6u);
  EXPECT_EQ(Append(6, "78\nlost\n"), 14u);
  EXPECT_EQ(Append(14, "lost too\n"), 23u);
  const std::string text = Text();
  EXPECT_THAT(text, StartsWith("12345\n78\n[log cut here at byte 8 of rank 0's standard output"));
  EXPECT_THAT(text, EndsWith("reached their limit (dp-coordinator --job-logs-bytes-max)]\n"));
  EXPECT_EQ(Text(), text);
}

TEST_F(LogGapsTest, TheMarkIsGivenOnceToAFollower) {
  Reopen({.job_bytes_max = 4});
  Append(0, "one\ntwo\n");
  const LogPage first = Read();
  EXPECT_THAT(first.chunks.at(1).data, HasSubstr("log cut here"));
  EXPECT_EQ(first.chunks.at(1).cut_bytes, 4u);
  Append(8, "three\n");
  EXPECT_THAT(Read({.from = first.next}).chunks, IsEmpty());
}

TEST_F(LogGapsTest, ACutSurvivesAReopening) {
  Reopen({.job_bytes_max = 4});
  Append(0, "one\ntwo\n");
  const std::string text = Text();
  Reopen({.job_bytes_max = 4});
  EXPECT_EQ(Append(0, ""), 8u);
  EXPECT_EQ(Text(), text);
}

// A crash between the record of a cut and the hole behind it leaves the record alone.
TEST_F(LogGapsTest, ACutThatNeverCameAboutCutsNothingLater) {
  Append(0, "one\n");
  std::ofstream(scratch_.path() / "logs/7/1/0.stdout.cut") << "4" << std::flush;
  Reopen();  // with room for more
  Append(4, "two\n");
  Reopen();
  EXPECT_EQ(Text(), "one\ntwo\n");
}

TEST_F(LogGapsTest, BytesThatAWorkerCouldNotKeepAreMarkedWhereTheyAreMissing) {
  Append(0, "one\n");
  EXPECT_EQ(AppendGap(4, 100), 104u);
  EXPECT_EQ(Append(104, "two\n"), 108u);
  EXPECT_THAT(Text(), AllOf(StartsWith("one\n[log cut here: 100 bytes of rank 0's standard output"),
                            EndsWith("]\ntwo\n")));
  EXPECT_EQ(Read().chunks.at(1).cut_bytes, 100u);
}

TEST_F(LogGapsTest, AGapSurvivesAReopeningAndItsRepetitionChangesNothing) {
  Append(0, "one\n");
  AppendGap(4, 100);
  Append(104, "two\n");
  const std::string text = Text();
  Reopen();
  EXPECT_EQ(AppendGap(4, 100), 108u);
  EXPECT_EQ(Text(), text);
}

TEST_F(LogGapsTest, BytesThatTheRankHasEmptiedItsFileOfAreMarkedAsThat) {
  Append(0, "one\n");
  Append(kJob, {Stream(0), 4, "", {}, /*cut_bytes=*/11, /*emptied=*/true});
  AppendGap(15, 100);
  Append(kJob, {Stream(0), 115, "", {}, /*cut_bytes=*/1, /*emptied=*/true});
  const std::string text = Text();
  EXPECT_EQ(
      text,
      absl::StrCat(
          "one\n[log cut here: rank 0 emptied the file of its standard output ",
          "(> /dev/stdout does that, >&1 does not); about 11 bytes are missing]\n",
          "[log cut here: 100 bytes of rank 0's standard output are missing, its worker had no "
          "room "
          "for more that waits (dp-worker --spool-bytes-max; a smaller disk has room for less)]\n",
          "[log cut here: rank 0 emptied the file of its standard output (> /dev/stdout does that, "
          ">&1 does not); what the rank wrote just before may be missing]\n"));
  Reopen();
  EXPECT_EQ(Text(), text);
}

// A disk that returns other bytes must neither lead readers back nor end the coordinator.
TEST_F(LogGapsTest, AGapThatNobodyHasWrittenIsForgotten) {
  Append(0, "one\n");
  uint64_t end = AppendGap(4, 100);
  const std::filesystem::path gaps = scratch_.path() / "logs/7/1/0.stdout.gaps";
  constexpr uint64_t kMost = ~uint64_t{0};
  // Each begins before the last one's end, ends before it begins, or ends beyond the stream.
  for (const LogIndex::Entry damage :
       {LogIndex::Entry{50, 2 * 104}, {104, 2 * 60}, {104, kMost}, {104, 2 * 1000}}) {
    end = Append(end, "line\n");
    const std::string text = Text();
    std::ofstream file(gaps, std::ios::binary | std::ios::app);
    file.write(reinterpret_cast<const char*>(&damage), sizeof(damage));
    file.close();
    Reopen();
    EXPECT_EQ(Text(), text);
    end = AppendGap(end, 10);
    EXPECT_THAT(Text(), HasSubstr("10 bytes"));
  }
}

TEST_F(LogGapsTest, OfAGapOnlyWhatIsNotStoredIsMissing) {
  Append(0, "one\ntwo\n");
  EXPECT_EQ(AppendGap(4, 100), 104u);
  EXPECT_THAT(Text(), StartsWith("one\ntwo\n[log cut here: 96 bytes"));
}

TEST_F(LogGapsTest, GapsWithNothingBetweenAreToldAsOne) {
  AppendGap(0, 10);
  AppendGap(10, 20);
  Append(30, "one\n");
  EXPECT_THAT(Text(), AllOf(StartsWith("[log cut here: 30 bytes"), EndsWith("]\none\n")));
  const std::string text = Text();
  Reopen();
  EXPECT_EQ(Text(), text);
}

TEST_F(LogGapsTest, WhoHasReadOneGapIsToldOfItsNeighbourAlone) {
  AppendGap(0, 10);
  const LogPage first = Read();
  EXPECT_EQ(first.chunks.at(0).cut_bytes, 10u);
  AppendGap(10, 20);
  EXPECT_EQ(Read({.from = first.next}).chunks.at(0).cut_bytes, 20u);
}

TEST_F(LogGapsTest, AGapEndsTheLineBeforeIt) {
  Append(0, "half");
  AppendGap(4, 10);
  Append(14, "way\n");
  EXPECT_THAT(Text(), AllOf(StartsWith("half\n[log cut"), EndsWith("]\nway\n")));
}

TEST_F(LogGapsTest, AGapThatNothingFollowsIsTold) {
  AppendGap(0, 10);
  EXPECT_THAT(Text(), StartsWith("[log cut here: 10 bytes"));
  const LogPage page = Read();
  EXPECT_THAT(Read({.from = page.next}).chunks, IsEmpty());
}

TEST_F(LogGapsTest, ATailDoesNotGoBackBeyondAGap) {
  Append(0, "1\n2\n");
  AppendGap(4, 10);
  Append(14, "3\n4\n");
  EXPECT_EQ(Text({.tail_lines = 1}), "4\n");
  EXPECT_EQ(Text({.tail_lines = 2}), "3\n4\n");
  EXPECT_THAT(Text({.tail_lines = 3}), AllOf(StartsWith("[log cut"), EndsWith("]\n3\n4\n")));
  EXPECT_THAT(Text({.tail_lines = 9}), StartsWith("[log cut"));
}

}  // namespace
}  // namespace dp::server
