#include "server/shell/log_store.h"

#include <fstream>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shell/scratch_dir.h"

namespace dp::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Kind = LogStreamKey::Kind;

constexpr JobId kJob(7);

LogStreamKey Stream(int rank, Kind kind = Kind::kStdout, uint64_t generation = 1) {
  return {Generation(generation), rank, kind};
}

absl::Time Second(int second) { return absl::FromUnixSeconds(second); }
std::vector<LogTime> At(uint64_t offset, int second) { return {{offset, Second(second)}}; }

class LogStoreTest : public ::testing::Test {
 protected:
  // Appends to a stream and returns its acknowledged end.
  uint64_t Append(uint64_t offset, std::string data, LogStreamKey stream = Stream(0)) {
    return Append(offset, std::move(data), {}, stream);
  }
  uint64_t Append(uint64_t offset, std::string data, std::vector<LogTime> times,
                  LogStreamKey stream = Stream(0), JobId job = kJob) {
    return Append(job, {stream, offset, std::move(data), std::move(times)});
  }
  uint64_t AppendGap(uint64_t offset, uint64_t size) {
    return Append(kJob, {Stream(0), offset, "", {}, size});
  }
  uint64_t Append(JobId job, const LogChunk& chunk) {
    const auto end = store_->Append(job, chunk);
    EXPECT_TRUE(end.ok()) << end.status();
    EXPECT_TRUE(store_->Sync().ok());
    return end->offset;
  }
  LogPage Read(const LogQuery& query = {}) {
    auto page = store_->Read(kJob, query);
    EXPECT_TRUE(page.ok()) << page.status();
    return *std::move(page);
  }
  // All text that the query gives, page after page.
  std::string Text(LogQuery query = {}) {
    std::string text;
    for (int pages = 0; pages < 100; ++pages) {
      const LogPage page = Read(query);
      for (const LogChunk& chunk : page.chunks) text += chunk.data;
      query.from = page.next;
      if (page.exhausted) return text;
    }
    ADD_FAILURE() << "reading does not end";
    return text;
  }
  // As a restart does.
  void Reopen(const LogLimits& limits = {}) {
    store_ = std::make_unique<LogStore>(scratch_.path() / "logs", limits);
    store_->Measure();
  }

  const ScratchDir scratch_;
  std::unique_ptr<LogStore> store_ = std::make_unique<LogStore>(scratch_.path() / "logs");
};

TEST_F(LogStoreTest, WhatWasAppendedIsRead) {
  EXPECT_EQ(Append(0, "one\n"), 4u);
  EXPECT_EQ(Append(4, "two\n"), 8u);
  EXPECT_EQ(Text(), "one\ntwo\n");
}

TEST_F(LogStoreTest, ARepetitionIsDroppedAndItsNewPartIsKept) {
  Append(0, "one\n");
  EXPECT_EQ(Append(0, "one\n"), 4u);
  EXPECT_EQ(Append(2, "e\ntwo\n"), 8u);
  EXPECT_EQ(Text(), "one\ntwo\n");
}

TEST_F(LogStoreTest, BytesBehindAGapAreNotTaken) {
  Append(0, "one\n");
  EXPECT_EQ(Append(5, "late\n"), 4u);
  EXPECT_EQ(Text(), "one\n");
}

TEST_F(LogStoreTest, AStreamsLengthSurvivesAReopening) {
  Append(0, "one\ntw");
  Reopen();
  EXPECT_EQ(Append(0, ""), 6u);
  EXPECT_EQ(Text(), "one\n");
  Append(6, "o\n");
  EXPECT_EQ(Text(), "one\ntwo\n");
}

TEST_F(LogStoreTest, ALineIsGivenOnceItIsWholeOrTheJobHasFinished) {
  Append(0, "one\npart");
  EXPECT_EQ(Text(), "one\n");
  EXPECT_EQ(Text({.finished = true}), "one\npart");
}

TEST_F(LogStoreTest, AVeryLongLineIsGivenInPieces) {
  const std::string line(kWholeLineBytesMax, 'x');
  Append(0, line);
  EXPECT_EQ(Text(), line);
  Append(line.size(), "more");
  EXPECT_EQ(Text(), line + "more");
}

TEST_F(LogStoreTest, HundredsOfPagesWithoutANewlineAreGivenWhole) {
  const std::string block(1 << 20, 'x');
  for (uint64_t i = 0; i < 8; ++i) Append(i * block.size(), block);
  const LogPage page = Read();
  ASSERT_EQ(page.chunks.size(), 1u);
  EXPECT_EQ(page.chunks[0].data.size(), kLogPageBytesMax);
  EXPECT_EQ(Text().size(), 8 * block.size());
}

TEST_F(LogStoreTest, APageEndsWithALine) {
  std::string text;
  while (text.size() < 3 * kLogPageBytesMax) text += "a line of some length\n";
  Append(0, text);
  EXPECT_THAT(Read().chunks.at(0).data, EndsWith("\n"));
  EXPECT_LE(Read().chunks.at(0).data.size(), kLogPageBytesMax);
  EXPECT_EQ(Text(), text);
}

TEST_F(LogStoreTest, ReadingGoesOnFromAPosition) {
  Append(0, "one\n");
  const LogPage first = Read();
  EXPECT_TRUE(first.exhausted);
  EXPECT_THAT(first.next, ElementsAre(LogPosition{Stream(0), 4}));
  Append(4, "two\n");
  EXPECT_THAT(Read({.from = first.next}).chunks, ElementsAre(LogChunk{Stream(0), 4, "two\n"}));
}

TEST_F(LogStoreTest, ATailBeginsAtTheLastLines) {
  Append(0, "1\n2\n3\n");
  EXPECT_EQ(Text({.tail_lines = 1}), "3\n");
  EXPECT_EQ(Text({.tail_lines = 2}), "2\n3\n");
  EXPECT_EQ(Text({.tail_lines = 9}), "1\n2\n3\n");
}

TEST_F(LogStoreTest, ATailCountsAnUnfinishedLineOnlyAtTheEnd) {
  Append(0, "1\n2\n3");
  EXPECT_EQ(Text({.tail_lines = 1}), "2\n");
  EXPECT_EQ(Text({.tail_lines = 1, .finished = true}), "3");
}

TEST_F(LogStoreTest, StreamsAndRanksAreSelected) {
  Append(0, "out0\n", Stream(0));
  Append(0, "err0\n", Stream(0, Kind::kStderr));
  Append(0, "{}\n", Stream(0, Kind::kMetrics));
  Append(0, "out1\n", Stream(1));
  EXPECT_EQ(Text(), "out0\nerr0\nout1\n");
  EXPECT_EQ(Text({.kinds = {Kind::kMetrics}}), "{}\n");
  EXPECT_EQ(Text({.ranks = {1}}), "out1\n");
}

TEST_F(LogStoreTest, GenerationsAndJobsAreKeptApart) {
  Append(0, "first\n", Stream(0, Kind::kStdout, 1));
  Append(0, "second\n", Stream(0, Kind::kStdout, 2));
  EXPECT_EQ(Text(), "first\nsecond\n");
  EXPECT_THAT(store_->Read(JobId(8), {})->chunks, IsEmpty());
}

TEST_F(LogStoreTest, ABusyStreamLeavesRoomForTheOthers) {
  Append(0, std::string(2 * kLogPageBytesMax, 'x') + "\n", Stream(0));
  Append(0, "quiet\n", Stream(1));
  EXPECT_EQ(Read().chunks.at(1).data, "quiet\n");
}

TEST_F(LogStoreTest, MoreStreamsThanAPageHoldsAreAllGivenInTheEnd) {
  const std::string line = std::string(kWholeLineBytesMax - 1, 'x') + "\n";
  for (int rank = 0; rank < 40; ++rank) Append(0, line, Stream(rank));
  EXPECT_EQ(Text().size(), 40 * line.size());
}

TEST_F(LogStoreTest, PastItsLimitAJobsStreamIsCutWithAMark) {
  Reopen({.job_bytes_max = 8});
  EXPECT_EQ(Append(0, "12345\n"), 6u);
  EXPECT_EQ(Append(6, "78\nlost\n"), 14u);
  EXPECT_EQ(Append(14, "lost too\n"), 23u);
  const std::string text = Text();
  EXPECT_THAT(text, StartsWith("12345\n78\n[log cut here at byte 8 of rank 0's standard output"));
  EXPECT_THAT(text, EndsWith("reached their limit (dp-coordinator --job-logs-bytes-max)]\n"));
  EXPECT_EQ(Text(), text);
}

TEST_F(LogStoreTest, TheMarkIsGivenOnceToAFollower) {
  Reopen({.job_bytes_max = 4});
  Append(0, "one\ntwo\n");
  const LogPage first = Read();
  EXPECT_THAT(first.chunks.at(1).data, HasSubstr("log cut here"));
  EXPECT_EQ(first.chunks.at(1).cut_bytes, 4u);
  Append(8, "three\n");
  EXPECT_THAT(Read({.from = first.next}).chunks, IsEmpty());
}

TEST_F(LogStoreTest, ACutSurvivesAReopening) {
  Reopen({.job_bytes_max = 4});
  Append(0, "one\ntwo\n");
  const std::string text = Text();
  Reopen({.job_bytes_max = 4});
  EXPECT_EQ(Append(0, ""), 8u);
  EXPECT_EQ(Text(), text);
}

TEST_F(LogStoreTest, BytesThatAWorkerCouldNotKeepAreMarkedWhereTheyAreMissing) {
  Append(0, "one\n");
  EXPECT_EQ(AppendGap(4, 100), 104u);
  EXPECT_EQ(Append(104, "two\n"), 108u);
  EXPECT_THAT(Text(), AllOf(StartsWith("one\n[log cut here: 100 bytes of rank 0's standard output"),
                            EndsWith("]\ntwo\n")));
  EXPECT_EQ(Read().chunks.at(1).cut_bytes, 100u);
}

TEST_F(LogStoreTest, AGapSurvivesAReopeningAndItsRepetitionChangesNothing) {
  Append(0, "one\n");
  AppendGap(4, 100);
  Append(104, "two\n");
  const std::string text = Text();
  Reopen();
  EXPECT_EQ(AppendGap(4, 100), 108u);
  EXPECT_EQ(Text(), text);
}

TEST_F(LogStoreTest, OfAGapOnlyWhatIsNotStoredIsMissing) {
  Append(0, "one\ntwo\n");
  EXPECT_EQ(AppendGap(4, 100), 104u);
  EXPECT_THAT(Text(), StartsWith("one\ntwo\n[log cut here: 96 bytes"));
}

TEST_F(LogStoreTest, GapsWithNothingBetweenAreToldAsOne) {
  AppendGap(0, 10);
  AppendGap(10, 20);
  Append(30, "one\n");
  EXPECT_THAT(Text(), AllOf(StartsWith("[log cut here: 30 bytes"), EndsWith("]\none\n")));
  const std::string text = Text();
  Reopen();
  EXPECT_EQ(Text(), text);
}

TEST_F(LogStoreTest, WhoHasReadOneGapIsToldOfItsNeighbourAlone) {
  AppendGap(0, 10);
  const LogPage first = Read();
  EXPECT_EQ(first.chunks.at(0).cut_bytes, 10u);
  AppendGap(10, 20);
  EXPECT_EQ(Read({.from = first.next}).chunks.at(0).cut_bytes, 20u);
}

TEST_F(LogStoreTest, AGapEndsTheLineBeforeIt) {
  Append(0, "half");
  AppendGap(4, 10);
  Append(14, "way\n");
  EXPECT_THAT(Text(), AllOf(StartsWith("half\n[log cut"), EndsWith("]\nway\n")));
}

TEST_F(LogStoreTest, AGapThatNothingFollowsIsTold) {
  AppendGap(0, 10);
  EXPECT_THAT(Text(), StartsWith("[log cut here: 10 bytes"));
  const LogPage page = Read();
  EXPECT_THAT(Read({.from = page.next}).chunks, IsEmpty());
}

TEST_F(LogStoreTest, ATailDoesNotGoBackBeyondAGap) {
  Append(0, "1\n2\n");
  AppendGap(4, 10);
  Append(14, "3\n4\n");
  EXPECT_EQ(Text({.tail_lines = 1}), "4\n");
  EXPECT_EQ(Text({.tail_lines = 2}), "3\n4\n");
  EXPECT_THAT(Text({.tail_lines = 3}), AllOf(StartsWith("[log cut"), EndsWith("]\n3\n4\n")));
  EXPECT_THAT(Text({.tail_lines = 9}), StartsWith("[log cut"));
}

TEST_F(LogStoreTest, ReadingBeginsAtTheFirstLineThatWasFoundSince) {
  Append(0, "one\n", At(0, 10));
  Append(4, "two\nthree\n", At(4, 20));
  EXPECT_EQ(Text({.since = Second(5)}), "one\ntwo\nthree\n");
  EXPECT_EQ(Text({.since = Second(11)}), "two\nthree\n");
  EXPECT_EQ(Text({.since = Second(20)}), "two\nthree\n");
  EXPECT_EQ(Text({.since = Second(21)}), "");
  EXPECT_EQ(Text({.tail_lines = 1, .since = Second(11)}), "three\n");
  EXPECT_EQ(Text({.tail_lines = 9, .since = Second(11)}), "two\nthree\n");
}

TEST_F(LogStoreTest, WhoAsksForLaterGetsWhatComesLater) {
  Append(0, "one\ntw", At(0, 10));
  const LogPage page = Read({.since = Second(15)});
  EXPECT_THAT(page.chunks, IsEmpty());
  Append(6, "o\nthree\n", At(6, 20));
  EXPECT_EQ(Text({.from = page.next}), "two\nthree\n");
}

TEST_F(LogStoreTest, TimesSurviveAReopeningAndComeWithTheLines) {
  Append(0, "one\n", At(0, 10));
  Append(4, "two\n", At(4, 20));
  Reopen();
  const LogChunk chunk = Read({.with_times = true}).chunks.at(0);
  EXPECT_THAT(chunk.times, ElementsAre(LogTime{0, Second(10)}, LogTime{4, Second(20)}));
  const LogQuery from_two{.from = {{Stream(0), 4}}, .with_times = true};
  EXPECT_THAT(Read(from_two).chunks.at(0).times, ElementsAre(LogTime{4, Second(20)}));
  EXPECT_THAT(Read().chunks.at(0).times, IsEmpty());
}

TEST_F(LogStoreTest, LinesOfAnOlderReleaseHaveNoTimeAndCountAsOld) {
  Append(0, "old\n");
  Append(4, "new\n", At(4, 20));
  EXPECT_THAT(Read({.with_times = true}).chunks.at(0).times, ElementsAre(LogTime{4, Second(20)}));
  EXPECT_EQ(Text({.since = Second(1)}), "new\n");
}

TEST_F(LogStoreTest, WithoutRoomNothingIsTakenAndARepetitionIsFine) {
  Append(0, "one\n");
  Reopen({.disk_reserve = uint64_t{1} << 60});
  const auto refused = store_->Append(kJob, {Stream(0), 4, "two\n"});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Append(0, "one\n"), 4u);
  Reopen();
  EXPECT_EQ(Append(4, "two\n"), 8u);
  EXPECT_EQ(Text(), "one\ntwo\n");
}

TEST_F(LogStoreTest, PastTheLimitOfAllJobsTheNamedOnesMakeRoomAndSaySo) {
  Append(0, std::string(1000, 'x') + "\n");
  Append(0, std::string(1000, 'y') + "\n", {}, Stream(0), JobId(8));
  Reopen({.bytes_max = 2000});
  EXPECT_EQ(store_->Append(kJob, {Stream(0), 1001, "more\n"}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(*store_->MakeRoom({JobId(9), kJob, JobId(8)}), ElementsAre(kJob));
  EXPECT_EQ(Append(1001, "more\n"), 1006u);
  EXPECT_THAT(Text(), AllOf(StartsWith("[log cut here: 1001 bytes of rank 0's standard output"),
                            EndsWith("]\nmore\n")));
  Reopen();
  EXPECT_THAT(Text(), EndsWith("]\nmore\n"));
}

TEST_F(LogStoreTest, TheVersionGrowsWithEveryAppend) {
  Append(0, "one\n");
  const uint64_t before = Read().version;
  Append(0, "one\n");  // a repetition too: its first time may have been told to nobody
  EXPECT_GT(store_->version(kJob), before);
}

TEST_F(LogStoreTest, ItTellsOfWhichJobsItHasSomething) {
  Append(0, "line\n");
  std::filesystem::create_directories(scratch_.path() / "logs" / "lost+found");
  Reopen();
  EXPECT_THAT(store_->Stored(), testing::ElementsAre(kJob));
}

TEST_F(LogStoreTest, StrangeFilesInItsFoldersAreLeftAlone) {
  Append(0, "one\n");
  std::ofstream(scratch_.path() / "logs" / "7" / "1" / "notes.txt") << "x";
  Reopen();
  EXPECT_EQ(Text(), "one\n");
}

// Where ranks ran, and whether all has come.

const RankOutput kRank0{Generation(1), 0, "node1", "host-a", "/spool/7/1/0"};

std::vector<std::pair<int, uint64_t>> Outstanding(const LogPage& page) {
  std::vector<std::pair<int, uint64_t>> ranks;
  for (const OutstandingOutput& each : page.outstanding) {
    ranks.emplace_back(each.of.rank, each.stored_bytes);
  }
  return ranks;
}

TEST_F(LogStoreTest, LinesOfEachGenerationHaveTheHostWhereTheirRankRanThen) {
  RankOutput moved = kRank0;
  moved.generation = Generation(2);
  moved.host = "host-b";
  ASSERT_TRUE(store_->Note(kJob, {kRank0, moved}).ok());
  Append(0, "one\n");
  Append(0, "two\n", Stream(0, Kind::kStdout, 2));
  Append(0, "three\n", Stream(1));
  Reopen();
  const LogPage page = Read();
  ASSERT_EQ(page.chunks.size(), 3u);
  EXPECT_EQ(page.chunks[0].host, "host-a");
  EXPECT_EQ(page.chunks[1].host, "");  // nobody said, as in an older release
  EXPECT_EQ(page.chunks[2].host, "host-b");
}

TEST_F(LogStoreTest, ARankWhoseOutputIsNotWholeIsOutstandingOnceTheQueryIsFinished) {
  ASSERT_TRUE(store_->Note(kJob, {kRank0}).ok());
  Append(0, "one\n");
  Append(0, "{}\n", Stream(0, Kind::kMetrics));
  EXPECT_THAT(Outstanding(Read()), IsEmpty());
  Reopen();
  const LogPage page = Read({.finished = true});
  EXPECT_THAT(Outstanding(page), ElementsAre(std::pair(0, 4)));
  EXPECT_EQ(page.outstanding.at(0).of.spool, kRank0.spool);
  EXPECT_EQ(page.outstanding.at(0).of.generation, Generation(1));
  RankOutput whole = kRank0;
  whole.whole = true;
  ASSERT_TRUE(store_->Note(kJob, {whole}).ok());
  EXPECT_THAT(Outstanding(Read({.finished = true})), IsEmpty());
  Reopen();
  EXPECT_THAT(Outstanding(Read({.finished = true})), IsEmpty());
}

TEST_F(LogStoreTest, OnlyWhatAQueryAsksForIsOutstanding) {
  RankOutput later = kRank0, silent = kRank0;
  later.generation = Generation(2);
  later.rank = 1;
  silent.rank = 2;
  silent.spool = "";  // of a daemon that does not tell the end
  ASSERT_TRUE(store_->Note(kJob, {kRank0, later, silent}).ok());
  EXPECT_THAT(Outstanding(Read({.finished = true, .without_lines = true})),
              ElementsAre(std::pair(0, 0), std::pair(1, 0)));
  EXPECT_THAT(Outstanding(Read({.ranks = {1}, .finished = true})), ElementsAre(std::pair(1, 0)));
  EXPECT_THAT(Outstanding(Read({.since_generation = Generation(2), .finished = true})),
              ElementsAre(std::pair(1, 0)));
  EXPECT_THAT(Outstanding(Read({.generation = Generation(1), .finished = true})),
              ElementsAre(std::pair(0, 0)));
}

TEST_F(LogStoreTest, NoMoreThanSoManyRanksAreToldButAllAreCounted) {
  std::vector<RankOutput> ranks(kOutstandingMax + 1, kRank0);
  for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].rank = static_cast<int>(rank);
  ASSERT_TRUE(store_->Note(kJob, ranks).ok());
  const LogPage page = Read({.finished = true});
  EXPECT_EQ(page.outstanding.size(), kOutstandingMax);
  EXPECT_EQ(page.outstanding_ranks, kOutstandingMax + 1);
}

TEST_F(LogStoreTest, WhatAppendsFindNoRoomForIsOutstandingAllTheSame) {
  Reopen({.disk_reserve = ~uint64_t{0}});
  ASSERT_TRUE(store_->Note(kJob, {kRank0}).ok());
  EXPECT_FALSE(store_->Append(kJob, {Stream(0), 0, "one\n"}).ok());
  EXPECT_THAT(Outstanding(Read({.finished = true})), ElementsAre(std::pair(0, 0)));
}

TEST_F(LogStoreTest, ATornLineOfTheRosterIsForgottenAndWrittenOver) {
  RankOutput other = kRank0;
  other.rank = 1;
  ASSERT_TRUE(store_->Note(kJob, {kRank0, other}).ok());
  const auto file = scratch_.path() / "logs" / "7" / "1" / "ranks";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 3);
  Reopen();
  EXPECT_THAT(Outstanding(Read({.finished = true})), ElementsAre(std::pair(0, 0)));
  ASSERT_TRUE(store_->Note(kJob, {other}).ok());
  Reopen();
  EXPECT_THAT(Outstanding(Read({.finished = true})), ElementsAre(std::pair(0, 0), std::pair(1, 0)));
}

TEST_F(LogStoreTest, ADroppedJobsRosterGoesWithItsLines) {
  ASSERT_TRUE(store_->Note(kJob, {kRank0}).ok());
  ASSERT_TRUE(store_->Drop(kJob).ok());
  EXPECT_THAT(Outstanding(Read({.finished = true})), IsEmpty());
  EXPECT_THAT(store_->Stored(), IsEmpty());
}

}  // namespace
}  // namespace dp::server
