#include "client/dpctl/view/log_dedup.h"

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

// "[0-2] text" for each line.
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

TEST_F(LogDedupTest, LinesThatComeRankByRankArePutTogetherAroundThoseOfOneRank) {
  for (int rank = 0; rank < 3; ++rank)
    for (const std::string& text :
         {std::string("hello"), absl::StrCat("I am ", rank), std::string("bye")})
      Write(rank, text);
  EXPECT_THAT(TakeAll(),
              ElementsAre("[0-2] hello", "[0] I am 0", "[1] I am 1", "[2] I am 2", "[0-2] bye"));
}

TEST_F(LogDedupTest, ALineThatMovesForwardIsHeldNoLongerThanTheOneItMovesBefore) {
  Write(0, "ready");
  now_ += kHold / 2;
  Write(1, "I am 1");
  Write(1, "ready");
  now_ += kHold / 2;
  EXPECT_THAT(Take(), ElementsAre("[1] I am 1", "[0-1] ready"));
}

TEST_F(LogDedupTest, WhatIsSharedStaysWhereItIs) {
  Write(0, "b");
  Write(0, "a");
  Write(1, "a");
  Write(1, "b");  // merging would move rank 0's "a", too
  Write(1, "c");
  Write(2, "b");
  EXPECT_THAT(TakeAll(), ElementsAre("[0,2] b", "[0-1] a", "[1] b", "[1] c"));
}

TEST_F(LogDedupTest, LinesOfAnyNumberOfRanksMoveBeforeASharedOne) {
  constexpr int kRanks = 30'000;
  LogDedup dedup(kRanks, kHold);
  for (int rank = 0; rank < kRanks; ++rank) {
    dedup.Add(Line(rank, absl::StrCat("I am ", rank)), now_);
    dedup.Add(Line(rank, "bye"), now_);
  }
  const std::vector<SharedLine> lines = dedup.Take(now_ + kHold);
  ASSERT_EQ(lines.size(), kRanks + 1u);
  EXPECT_EQ(lines.back().ranks.size(), size_t{kRanks});
  EXPECT_EQ(lines.at(kRanks - 1).line.text, "I am 29999");
}

TEST_F(LogDedupTest, ARanksLinesKeepTheirOrder) {
  Write(0, "a");
  Write(0, "b");
  Write(1, "b");
  Write(1, "a");  // not merged with rank 0's, which came before b
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

// Ranks of a program that write mostly equal lines, read in pages of several lines of one rank.
class RandomRanks {
 public:
  explicit RandomRanks(unsigned seed) : random_(seed) {}

  int Draw(int below) { return static_cast<int>(random_() % below); }
  // The next line of a rank: one that all ranks have at this place, or its own.
  std::string NextOf(int rank) {
    const size_t number = written_[rank].size();
    std::string text = Draw(4) == 0 ? absl::StrCat(rank, " is at ", number)
                                    : std::string(1, static_cast<char>('a' + number % 7));
    written_[rank].push_back(text);
    return text;
  }
  const std::map<int, std::vector<std::string>>& written() const { return written_; }

 private:
  std::minstd_rand random_;
  std::map<int, std::vector<std::string>> written_;
};

// For any lines in any order, the lines shown for a rank are those that it wrote.
TEST_F(LogDedupTest, EachLineOfEachRankIsShownOnceAndInItsOrder) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    RandomRanks ranks(seed);
    LogDedup dedup(3, seed % 2 == 0 ? kHold : absl::InfiniteDuration(), 10 * seed);
    std::map<int, std::vector<std::string>> shown;
    size_t shared = 0;
    const auto take = [&](const std::vector<SharedLine>& lines) {
      for (const SharedLine& each : lines) {
        for (const int rank : each.ranks) shown[rank].push_back(each.line.text);
        if (each.ranks.size() > 1) ++shared;
      }
    };
    for (int page = 0; page < 300; ++page) {
      const int rank = ranks.Draw(3);
      for (int left = ranks.Draw(20); left > 0; --left) {
        dedup.Add(Line(rank, ranks.NextOf(rank)), now_);
        now_ += absl::Milliseconds(ranks.Draw(50));
        take(dedup.Take(now_));
      }
    }
    take(dedup.TakeAll());
    EXPECT_EQ(shown, ranks.written()) << "seed " << seed;
    EXPECT_GT(shared, 10u) << "seed " << seed;
  }
}

TEST(FormatRanksTest, NeighboursAreARange) {
  EXPECT_EQ(FormatRanks({3}), "3");
  EXPECT_EQ(FormatRanks({0, 1, 2, 3}), "0-3");
  EXPECT_EQ(FormatRanks({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

}  // namespace
}  // namespace dp::ctl
