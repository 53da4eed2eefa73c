#include "client/dpctl/view/open_line.h"

#include <fstream>
#include <iterator>
#include <sstream>

#include "client/dpctl/local/scratch_dir.h"
#include "client/dpctl/run/line_files.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

using End = LogLine::End;

LogLine Written(int rank, const std::string& text, End end = End::kLineBreak, bool rest = false) {
  LogLine line{1, rank, v1::LOG_STREAM_STDERR, text};
  line.end = end;
  line.rest = rest;
  return line;
}

class OpenLineTest : public testing::Test {
 protected:
  void Print(const LogLine& line) {
    lines_.Print(out_, line, "[" + std::to_string(line.rank) + "] ", harmless_);
  }

  std::ostringstream out_;
  OpenLine lines_;
  bool harmless_ = false;
};

TEST_F(OpenLineTest, EveryByteStaysUnlessATerminalShowsIt) {
  Print(Written(0, "\x1b[2J\x1b[31mred"));
  harmless_ = true;
  Print(Written(0, "\x1b[2J\x1b[31mred\r"));
  EXPECT_EQ(out_.str(),
            "[0] \x1b[2J\x1b[31mred\n"
            "[0] \\x1b[2J\x1b[31mred\x1b[0m\r\n");
}

// Pieces of other ranks' lines may come in between.
TEST_F(OpenLineTest, AColourIsWholeAlsoWhereAPieceEndsWithinIt) {
  harmless_ = true;
  Print(Written(0, "10% \x1b[3", End::kContinued));
  Print(Written(1, "one\x1b"));
  Print(Written(0, "1mred\x1b[0m", End::kLineBreak, /*rest=*/true));
  EXPECT_EQ(out_.str(), "[0] 10% \n[1] one\\x1b\n[0] \x1b[31mred\x1b[0m\n");
}

TEST_F(OpenLineTest, PiecesOfALineFollowEachOtherBehindOneLabel) {
  Print(Written(0, "one ", End::kContinued));
  EXPECT_EQ(out_.str(), "[0] one ");
  EXPECT_TRUE(lines_.open());
  Print(Written(0, "two", End::kLineBreak, /*rest=*/true));
  EXPECT_EQ(out_.str(), "[0] one two\n");
  EXPECT_FALSE(lines_.open());
}

TEST_F(OpenLineTest, ACarriageReturnBringsTheLabelAgain) {
  Print(Written(0, "\r 10%\r 20%", End::kContinued));
  Print(Written(0, "\r 30%", End::kContinued, /*rest=*/true));
  EXPECT_EQ(out_.str(), "\r[0]  10%\r[0]  20%\r[0]  30%");
}

TEST_F(OpenLineTest, OneBeforeTheLineBreakStaysThere) {
  Print(Written(0, "dos\r"));
  Print(Written(0, "\r"));
  EXPECT_EQ(out_.str(), "[0] dos\r\n[0] \r\n");
}

TEST_F(OpenLineTest, AnotherRanksLineBeginsANewOne) {
  Print(Written(0, "10%\r", End::kContinued));
  Print(Written(1, "one"));
  Print(Written(0, "20%", End::kContinued, /*rest=*/true));
  Print(Written(0, "", End::kLineBreak, /*rest=*/true));
  EXPECT_EQ(out_.str(), "[0] 10%\r[0] \n[1] one\n[0] 20%\n");
}

TEST_F(OpenLineTest, TheEndOfALineThatAnotherHasEndedIsNoLine) {
  Print(Written(0, "\r100%", End::kContinued));
  Print(Written(1, "one"));
  Print(Written(0, "", End::kLineBreak, /*rest=*/true));
  EXPECT_EQ(out_.str(), "\r[0] 100%\n[1] one\n");
}

TEST_F(OpenLineTest, ALastLineWithoutALineBreakGetsOne) {
  Print(Written(0, "half", End::kStreamEnd));
  EXPECT_EQ(out_.str(), "[0] half\n");
}

TEST(LineFilesTest, AFileHoldsTheBytesThatItsRankWrote) {
  ScratchDir dir;
  ASSERT_TRUE(dir.Make().ok());
  LineFiles files(dir.Of("logs"));
  ASSERT_TRUE(files.Add(Written(0, "one\r")).ok());
  ASSERT_TRUE(files.Add(Written(0, "\r 10%", End::kContinued)).ok());
  ASSERT_TRUE(files.Add(Written(0, "", End::kLineBreak, /*rest=*/true)).ok());
  ASSERT_TRUE(files.Add(Written(0, "half", End::kStreamEnd)).ok());
  std::ifstream file(dir.Of("logs/attempt_0/0/stderr.log"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "one\r\n\r 10%\nhalf");
}

}  // namespace
}  // namespace dp::ctl
