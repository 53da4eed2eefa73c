#include "client/dpctl/log_dedup.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::Duration kHold = absl::Seconds(1);

LogLine Line(int rank, const std::string& text, v1::LogStream stream = v1::LOG_STREAM_STDOUT) {
  return {1, rank, stream, text};
}

// "[0-2] text" of each.
std::vector<std::string> Shown(const std::vector<SharedLine>& lines) {
  std::vector<std::string> shown;
  for (const SharedLine& each : lines)
    shown.push_back(absl::StrCat("[", FormatRanks(each.ranks), "] ", each.line.text));
  return shown;
}

class LogDedupTest : public testing::Test {
 protected:
  void Write(int rank, const std::string& text) { dedup_.Add(Line(rank, text), now_); }
  std::vector<std::string> Take() { return Shown(dedup_.Take(now_)); }
  std::vector<std::string> TakeAll() { return Shown(dedup_.TakeAll()); }

  absl::Time now_ = absl::UnixEpoch();
  LogDedup dedup_{/*ranks=*/3, kHold};
};

TEST_F(LogDedupTest, ALineThatEveryRankHasWrittenIsShownOnceAndAtOnce) {
  Write(0, "hello");
  Write(1, "hello");
  EXPECT_THAT(Take(), IsEmpty());
  Write(2, "hello");
  EXPECT_THAT(Take(), ElementsAre("[0-2] hello"));
}

TEST_F(LogDedupTest, ALineThatOthersDoNotWriteIsShownWhenTheyHadTheirTime) {
  Write(0, "hello");
  Write(2, "hello");
  EXPECT_EQ(dedup_.next_at(), now_ + kHold);
  now_ += kHold;
  EXPECT_THAT(Take(), ElementsAre("[0,2] hello"));
  EXPECT_EQ(dedup_.next_at(), absl::InfiniteFuture());
  Write(1, "hello");
  EXPECT_THAT(TakeAll(), ElementsAre("[1] hello"));
}

TEST_F(LogDedupTest, EqualLinesOfOneRankStayApart) {
  for (int rank = 0; rank < 3; ++rank) {
    Write(rank, "step");
    Write(rank, "step");
  }
  EXPECT_THAT(Take(), ElementsAre("[0-2] step", "[0-2] step"));
}

TEST_F(LogDedupTest, LinesLeaveInTheOrderInWhichTheyCame) {
  for (int rank = 0; rank < 3; ++rank) Write(rank, absl::StrCat("my rank is ", rank));
  for (int rank = 0; rank < 3; ++rank) Write(rank, "ready");
  EXPECT_THAT(Take(), IsEmpty());
  EXPECT_THAT(TakeAll(), ElementsAre("[0] my rank is 0", "[1] my rank is 1", "[2] my rank is 2",
                                     "[0-2] ready"));
}

TEST_F(LogDedupTest, ARanksLinesKeepTheirOrder) {
  Write(0, "a");
  Write(0, "b");
  Write(1, "b");
  Write(1, "a");  // not with rank 0's, which was before b
  EXPECT_THAT(TakeAll(), ElementsAre("[0] a", "[0-1] b", "[1] a"));
}

TEST_F(LogDedupTest, StreamsAndGenerationsAreNoPartOfEachOther) {
  dedup_.Add(Line(0, "x"), now_);
  dedup_.Add(Line(1, "x", v1::LOG_STREAM_STDERR), now_);
  LogLine next = Line(2, "x");
  next.generation = 2;
  dedup_.Add(next, now_);
  EXPECT_THAT(TakeAll(), ElementsAre("[0] x", "[1] x", "[2] x"));
}

TEST_F(LogDedupTest, NoMoreIsHeldThanItsBounds) {
  LogDedup lines(3, absl::InfiniteDuration(), /*lines_max=*/2);
  for (const char* text : {"1", "2", "3"}) lines.Add(Line(0, text), now_);
  EXPECT_THAT(Shown(lines.Take(now_)), ElementsAre("[0] 1"));
  LogDedup bytes(3, absl::InfiniteDuration(), 100, /*bytes_max=*/5);
  for (const char* text : {"1234", "5678"}) bytes.Add(Line(0, text), now_);
  EXPECT_THAT(Shown(bytes.Take(now_)), ElementsAre("[0] 1234"));
}

// Whatever comes in whatever order, what is shown of a rank is what it wrote.
TEST_F(LogDedupTest, EachLineOfEachRankIsShownOnceAndInItsOrder) {
  std::minstd_rand random(42);
  std::map<int, std::vector<std::string>> written, shown;
  const auto take = [&](const std::vector<SharedLine>& lines) {
    for (const SharedLine& each : lines)
      for (const int rank : each.ranks) shown[rank].push_back(each.line.text);
  };
  for (int i = 0; i < 5000; ++i) {
    const int rank = static_cast<int>(random() % 3);
    const std::string text(1, static_cast<char>('a' + random() % 5));
    written[rank].push_back(text);
    Write(rank, text);
    now_ += absl::Milliseconds(random() % 50);
    take(dedup_.Take(now_));
  }
  take(dedup_.TakeAll());
  EXPECT_EQ(shown, written);
}

TEST(FormatRanksTest, NeighboursAreARange) {
  EXPECT_EQ(FormatRanks({3}), "3");
  EXPECT_EQ(FormatRanks({0, 1, 2, 3}), "0-3");
  EXPECT_EQ(FormatRanks({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

}  // namespace
}  // namespace dp::ctl
