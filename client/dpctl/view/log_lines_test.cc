#include "client/dpctl/view/log_lines.h"

#include "base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::LogChunk Chunk(int rank, const std::string& data) {
  v1::LogChunk chunk;
  chunk.set_generation(1);
  chunk.set_rank(rank);
  chunk.set_stream(v1::LOG_STREAM_STDOUT);
  chunk.set_data(data);
  return chunk;
}

std::vector<std::string> Texts(const std::vector<LogLine>& lines) {
  std::vector<std::string> texts;
  for (const LogLine& line : lines) texts.push_back(line.text);
  return texts;
}

TEST(LogLinesTest, ALineMayComeInPieces) {
  LogLines lines;
  EXPECT_THAT(Texts(lines.Add(Chunk(0, "one\n\ntw"))), ElementsAre("one", ""));
  EXPECT_THAT(Texts(lines.Add(Chunk(0, "o\n"))), ElementsAre("two"));
  EXPECT_THAT(lines.Rest(), IsEmpty());
}

TEST(LogLinesTest, StreamsDoNotMix) {
  LogLines lines;
  EXPECT_THAT(lines.Add(Chunk(0, "ze")), IsEmpty());
  EXPECT_THAT(Texts(lines.Add(Chunk(1, "one\n"))), ElementsAre("one"));
  EXPECT_THAT(Texts(lines.Add(Chunk(0, "ro\n"))), ElementsAre("zero"));
}

TEST(LogLinesTest, TheLastLineNeedsNoLineBreak) {
  LogLines lines;
  lines.Add(Chunk(2, "half"));
  const std::vector<LogLine> rest = lines.Rest();
  EXPECT_THAT(Texts(rest), ElementsAre("half"));
  EXPECT_EQ(rest[0].rank, 2);
  EXPECT_THAT(lines.Rest(), IsEmpty());
}

TEST(LogLinesTest, AnEndlessLineIsCut) {
  LogLines lines;
  const size_t max = kWholeLineBytesMax;
  std::vector<LogLine> cut = lines.Add(Chunk(0, std::string(2 * max + 5, 'x')));
  ASSERT_EQ(cut.size(), 2u);
  EXPECT_EQ(cut[0].text.size(), max);
  EXPECT_EQ(cut[0].end, LogLine::End::kContinued);
  const std::vector<LogLine> rest = lines.Add(Chunk(0, "\n"));
  EXPECT_THAT(Texts(rest), ElementsAre("xxxxx"));
  EXPECT_EQ(rest[0].end, LogLine::End::kLineBreak);
}

TEST(LogLinesTest, ALineWithACarriageReturnComesInOnePieceAChunk) {
  LogLines lines;
  EXPECT_THAT(Texts(lines.Add(Chunk(0, "one\n\r 10%\r 11%"))), ElementsAre("one", "\r 10%\r 11%"));
  const std::vector<LogLine> piece = lines.Add(Chunk(0, " of"));
  EXPECT_THAT(Texts(piece), ElementsAre(" of"));
  EXPECT_EQ(piece[0].end, LogLine::End::kContinued);
  const std::vector<LogLine> rest = lines.Add(Chunk(0, "\ntwo"));
  EXPECT_THAT(Texts(rest), ElementsAre(""));
  EXPECT_EQ(rest[0].end, LogLine::End::kLineBreak);
  EXPECT_EQ(lines.Rest()[0].end, LogLine::End::kStreamEnd);
}

TEST(LogLinesTest, AHundredThousandCarriageReturnsAreOnePiece) {
  LogLines lines;
  std::string flood;
  for (int i = 0; i < 30'000; ++i) flood += "\r1";
  EXPECT_THAT(Texts(lines.Add(Chunk(0, flood))), ElementsAre(flood));
}

TEST(LogLinesTest, ACarriageReturnBeforeTheLineBreakBelongsToTheLine) {
  LogLines lines;
  EXPECT_THAT(Texts(lines.Add(Chunk(0, "one\r\ntwo\r\nthr"))), ElementsAre("one\r", "two\r"));
}

TEST(LogLinesTest, WhoWantsWholeLinesGetsAProgressBarAtItsEnd) {
  LogLines lines(LogLines::Bars::kWhole);
  EXPECT_THAT(lines.Add(Chunk(0, "\r 10%")), IsEmpty());
  EXPECT_THAT(Texts(lines.Add(Chunk(0, "\r 20%\n"))), ElementsAre("\r 10%\r 20%"));
}

TEST(LogLinesTest, MissingBytesEndALineOfWhichPiecesWereGiven) {
  LogLines lines;
  lines.Add(Chunk(0, "\r 10%"));
  v1::LogChunk gap = Chunk(0, "[7 bytes are missing]\n");
  gap.set_cut_bytes(7);
  const std::vector<LogLine> cut = lines.Add(gap);
  EXPECT_THAT(Texts(cut), ElementsAre("", "[7 bytes are missing]"));
  EXPECT_EQ(cut[0].end, LogLine::End::kLineBreak);
}

TEST(LogLinesTest, CuttingALineLosesNoByte) {
  LogLines lines;
  const std::string text(kWholeLineBytesMax, 'x');
  EXPECT_THAT(Texts(lines.Add(Chunk(0, text + "end\n"))), ElementsAre(text, "end"));
}

TEST(LogLinesTest, ALineOfTheLargestSizeStaysOne) {
  LogLines lines;
  const std::string text(kWholeLineBytesMax, 'x');
  EXPECT_THAT(Texts(lines.Add(Chunk(0, text + "\nnext\n"))), ElementsAre(text, "next"));
}

}  // namespace
}  // namespace dp::ctl
