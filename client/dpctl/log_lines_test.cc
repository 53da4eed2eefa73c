#include "client/dpctl/log_lines.h"

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
  EXPECT_EQ(Texts(lines.Add(Chunk(0, "\n")))[0], "xxxxx");
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
