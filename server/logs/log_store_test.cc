#include "server/logs/log_store.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/logs/testing/log_store_fixture.h"

namespace dp::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using LogStoreTest = LogStoreFixture;

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

TEST_F(LogStoreTest, ALineWithACarriageReturnIsGivenAsFarAsItGoes) {
  Append(0, "one\n\r 10%");
  EXPECT_EQ(Text(), "one\n\r 10%");
  Append(9, " of");  // a piece that its worker has split
  EXPECT_EQ(Text(), "one\n\r 10% of");
  Reopen();
  Append(12, " it");
  EXPECT_EQ(Text(), "one\n\r 10% of it");
  Append(15, "\ntwo");
  EXPECT_EQ(Text(), "one\n\r 10% of it\n");
}

TEST_F(LogStoreTest, AFollowerGetsWhatIsAddedToALineWithACarriageReturn) {
  Append(0, "\r 10%");
  const LogPage first = Read();
  Append(5, "\r 20%");
  const LogPage next = Read({.from = first.next});
  ASSERT_EQ(next.chunks.size(), 1u);
  EXPECT_EQ(next.chunks[0].data, "\r 20%");
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

TEST_F(LogStoreTest, GenerationsAreReadOneAfterTheOther) {
  std::string lines, expected;
  for (uint64_t i = 0; i < 3 * kLogPageBytesMax / 100; ++i) lines += std::string(99, 'x') + '\n';
  for (uint64_t generation : {1, 2, 3}) {
    const std::string text = absl::StrReplaceAll(lines, {{"x", absl::StrCat(generation)}});
    for (size_t at = 0; at < text.size(); at += kLogPageBytesMax) {
      Append(at, text.substr(at, kLogPageBytesMax), Stream(0, Kind::kStdout, generation));
    }
    expected += text;
  }
  EXPECT_TRUE(Text() == expected);
}

TEST_F(LogStoreTest, MoreStreamsThanAPageHoldsAreAllGivenInTheEnd) {
  const std::string line = std::string(kWholeLineBytesMax - 1, 'x') + "\n";
  for (int rank = 0; rank < 40; ++rank) Append(0, line, Stream(rank));
  EXPECT_EQ(Text().size(), 40 * line.size());
}

TEST_F(LogStoreTest, APageOfManyStreamsStaysWithinItsBound) {
  const std::string line = std::string(kWholeLineBytesMax - 1, 'x') + "\n";
  for (int rank = 0; rank < 40; ++rank) Append(0, line, Stream(rank));
  size_t bytes = 0;
  for (const LogChunk& chunk : Read().chunks) bytes += chunk.data.size();
  EXPECT_LE(bytes, kLogPageBytesMax);
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

TEST_F(LogStoreTest, AFolderThatCannotBeMadeNowIsMadeLater) {
  const std::filesystem::path folder = scratch_.path() / "logs" / kJob.ToString();
  std::filesystem::create_directories(folder.parent_path());
  std::filesystem::create_directory_symlink("nowhere", folder);
  EXPECT_FALSE(store_->Append(kJob, {Stream(0), 0, "one\n"}).ok());
  std::filesystem::remove(folder);
  EXPECT_EQ(Append(0, "one\n"), 4u);
  EXPECT_EQ(Text(), "one\n");
}

// The blocks of the files there; gaps take none.
uint64_t BlocksBelow(const std::filesystem::path& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    struct stat info {};
    if (entry.is_regular_file() && stat(entry.path().c_str(), &info) == 0) {
      bytes += uint64_t{512} * info.st_blocks;
    }
  }
  return bytes;
}

TEST_F(LogStoreTest, AtTheReserveOfTheDiskOnlySoManyMakeRoomAsItTakes) {
  const std::filesystem::path logs = scratch_.path() / "logs";
  uint64_t disk = 1'000'000;
  store_ = std::make_unique<LogStore>(logs, LogLimits{.disk_reserve = 200'000},
                                      [&] { return disk - BlocksBelow(logs); });
  for (const uint64_t job : {8, 9, 10}) {
    Append(JobId(job), {Stream(0), 0, std::string(100'000, 'x')});
  }
  EXPECT_FALSE(store_->disk_low());
  disk = BlocksBelow(logs) + 60'000;
  EXPECT_TRUE(store_->disk_low());
  EXPECT_EQ(store_->CheckRoom().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(*store_->MakeRoom({JobId(8), JobId(9), JobId(10)}), ElementsAre(JobId(8), JobId(9)));
  EXPECT_TRUE(store_->CheckRoom().ok());
}

TEST_F(LogStoreTest, MakingRoomFreesTheBytesBeforeItNeedsRoomForTheRecord) {
  const std::filesystem::path logs = scratch_.path() / "logs";
  uint64_t available = 1'000'000;
  store_ = std::make_unique<LogStore>(logs, LogLimits{.disk_reserve = 200'000},
                                      [&] { return available; });
  Append(0, std::string(1 << 20, 'x'));
  std::vector<std::filesystem::path> streams;
  for (const auto& file : std::filesystem::recursive_directory_iterator(logs)) {
    if (file.path().extension() == ".stdout") streams.push_back(file.path());
  }
  ASSERT_EQ(streams.size(), 1u);
  std::filesystem::create_directory(streams[0].string() + ".gaps");  // no record can be made
  available = 0;
  EXPECT_FALSE(store_->MakeRoom({kJob}).ok());
  EXPECT_LT(BlocksBelow(logs), uint64_t{1} << 19);
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

TEST_F(LogStoreTest, ARankThatEmptiesItsFileAfterItsLogsMadeRoomIsMarkedAsThat) {
  Append(0, std::string(1000, 'x') + "\n");
  Reopen({.bytes_max = 1000});
  EXPECT_THAT(*store_->MakeRoom({kJob}), ElementsAre(kJob));
  Append(kJob, {Stream(0), 1001, "", {}, /*cut_bytes=*/2, /*emptied=*/true});
  const std::string text = Text();
  EXPECT_THAT(text, AllOf(StartsWith("[log cut here: 1001 bytes"),
                          EndsWith("about 2 bytes are missing]\n")));
  Reopen();
  EXPECT_EQ(Text(), text);
}

TEST_F(LogStoreTest, AFollowerIsToldOfARemovalAlsoInTheMiddleOfALine) {
  Append(0, std::string(1000, 'x'));
  Append(0, std::string(1000, 'y') + "\n", {}, Stream(0), JobId(8));
  Reopen({.bytes_max = 2000});
  EXPECT_FALSE(store_->Append(kJob, {Stream(0), 1000, "more\n"}).ok());
  EXPECT_THAT(*store_->MakeRoom({kJob, JobId(8)}), ElementsAre(kJob));
  EXPECT_THAT(Text(), StartsWith("[log cut here: 1000 bytes of rank 0's standard output"));
}

TEST_F(LogStoreTest, TheVersionGrowsWithEveryAppend) {
  Append(0, "one\n");
  const uint64_t before = Read().version;
  Append(0, "one\n");  // also for a repetition: nobody may have heard of the first append
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

}  // namespace
}  // namespace dp::server
