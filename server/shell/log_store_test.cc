#include "server/shell/log_store.h"

#include <fstream>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shell/scratch_dir.h"

namespace dp::server {
namespace {

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

class LogStoreTest : public ::testing::Test {
 protected:
  // Appends to a stream and returns its acknowledged end.
  uint64_t Append(uint64_t offset, std::string data, LogStreamKey stream = Stream(0)) {
    const auto end = store_->Append(kJob, {stream, offset, std::move(data)});
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
  void Reopen(uint64_t job_bytes_max = kJobLogBytesMax) {
    store_ = std::make_unique<LogStore>(scratch_.path() / "logs", job_bytes_max);
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
  Reopen(/*job_bytes_max=*/8);
  EXPECT_EQ(Append(0, "12345\n"), 6u);
  EXPECT_EQ(Append(6, "78\nlost\n"), 14u);
  EXPECT_EQ(Append(14, "lost too\n"), 23u);
  const std::string text = Text();
  EXPECT_THAT(text, StartsWith("12345\n78\n[log cut here at byte 8"));
  EXPECT_THAT(text, EndsWith("reached their limit]\n"));
  EXPECT_EQ(Text(), text);
}

TEST_F(LogStoreTest, TheMarkIsGivenOnceToAFollower) {
  Reopen(/*job_bytes_max=*/4);
  Append(0, "one\ntwo\n");
  const LogPage first = Read();
  EXPECT_THAT(first.chunks.at(0).data, HasSubstr("log cut here"));
  Append(8, "three\n");
  EXPECT_THAT(Read({.from = first.next}).chunks, IsEmpty());
}

TEST_F(LogStoreTest, ACutSurvivesAReopening) {
  Reopen(/*job_bytes_max=*/4);
  Append(0, "one\ntwo\n");
  const std::string text = Text();
  Reopen(/*job_bytes_max=*/4);
  EXPECT_EQ(Append(0, ""), 8u);
  EXPECT_EQ(Text(), text);
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

}  // namespace
}  // namespace dp::server
