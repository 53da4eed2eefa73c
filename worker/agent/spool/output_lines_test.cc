#include "worker/agent/spool/output_lines.h"

#include "base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(OutputLinesTest, AnUnfinishedLineIsNotSentYet) {
  EXPECT_EQ(ShippableBytes("one\ntwo\nthr", /*ended=*/false), 8u);
  EXPECT_EQ(ShippableBytes("thr", /*ended=*/false), 0u);
}

TEST(OutputLinesTest, TheLastLineIsSentWithoutANewlineWhenNothingFollows) {
  EXPECT_EQ(ShippableBytes("one\ntwo", /*ended=*/true), 7u);
}

TEST(OutputLinesTest, ALineThatIsTooLongIsSentInPieces) {
  const std::string long_line(kWholeLineBytesMax, 'x');
  EXPECT_EQ(ShippableBytes(long_line.substr(1), /*ended=*/false), 0u);
  EXPECT_EQ(ShippableBytes(long_line, /*ended=*/false), kWholeLineBytesMax);
  EXPECT_EQ(ShippableBytes("one\n" + long_line, /*ended=*/false), 4 + kWholeLineBytesMax);
}

TEST(OutputLinesTest, ALineWithACarriageReturnIsSentAsFarAsItGoes) {
  EXPECT_EQ(ShippableBytes("\r 10%", /*ended=*/false), 5u);
  EXPECT_EQ(ShippableBytes("10%\r", /*ended=*/false), 4u);
  EXPECT_EQ(ShippableBytes("one\n10%\r 20%", /*ended=*/false), 12u);
  EXPECT_EQ(ShippableBytes("one\r\ntw", /*ended=*/false), 5u);
}

TEST(OutputLinesTest, LastLinesAreTakenFromTheEndInTheirOrder) {
  EXPECT_THAT(LastLinesOf("one\ntwo\n\nthree\n\n", 3), ElementsAre("two", "", "three"));
  EXPECT_THAT(LastLinesOf("one", 3), ElementsAre("one"));
  EXPECT_THAT(LastLinesOf("\n\n", 3), IsEmpty());
}

TEST(OutputLinesTest, ALineIsCutWithoutBreakingACharacter) {
  EXPECT_EQ(Printable("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(Printable("abcdefghi", 8), "abcde...");
  EXPECT_EQ(Printable("abcd\u00e9fghi", 8), "abcd...");
}

TEST(OutputLinesTest, BytesThatAreNoUtf8BecomeQuestionMarks) {
  EXPECT_EQ(Printable("a\xff\u00e9\xe2\x82", 99), "a?\u00e9??");
  EXPECT_EQ(Printable("\xc0\x80", 99), "??");       // an overlong zero
  EXPECT_EQ(Printable("\xed\xa0\x80", 99), "???");  // half of a surrogate pair
  EXPECT_EQ(Printable("\xf0\x9f\x98\x80", 99), "\xf0\x9f\x98\x80");
}

}  // namespace
}  // namespace dp::worker
