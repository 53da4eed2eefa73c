#include "worker/engine/collectives/call_ledger.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/engine/collectives/failure.h"

namespace dp::engine {
namespace {

using Call = CallShape::Kind;

CallNote Reduces(uint64_t number, uint64_t count) {
  return {.number = number, .shape = {.kind = Call::kAllReduce, .count = count}};
}

CallNote Exchanges(uint64_t number, std::vector<uint64_t> sent, std::vector<uint64_t> expected) {
  return {.number = number,
          .shape = {.kind = Call::kExchange},
          .pieces = {std::move(sent), std::move(expected)}};
}

class CallLedgerTest : public ::testing::Test {
 protected:
  std::string verdict() const { return std::string(ledger_.Check().message()); }

  CallLedger ledger_{3};
};

TEST_F(CallLedgerTest, EqualCallsAgree) {
  ledger_.Called(Reduces(1, 10));
  ledger_.Heard(1, {Reduces(1, 10)});
  ledger_.Heard(2, {Reduces(1, 10)});
  EXPECT_EQ(verdict(), "");
}

TEST_F(CallLedgerTest, CallsOfOtherNumbersAreNotCompared) {
  ledger_.Called(Reduces(2, 10));
  ledger_.Heard(1, {Reduces(1, 20)});  // it is late
  EXPECT_EQ(verdict(), "");
}

TEST_F(CallLedgerTest, ACallThatDiffersIsStated) {
  ledger_.Called(Reduces(1, 10));
  ledger_.Heard(1, {Reduces(1, 10)});
  ledger_.Heard(2, {Reduces(1, 20)});
  EXPECT_EQ(verdict(),
            "rank 0 calls all_reduce of 10 uint8, op sum, rank 2 calls all_reduce of 20 uint8, op "
            "sum");
}

TEST_F(CallLedgerTest, AnEarlierCallOfRank0IsCompared) {
  for (uint64_t number = 1; number < 20; ++number) ledger_.Called(Reduces(number, number));
  ledger_.Heard(2, {Reduces(7, 8)});
  EXPECT_EQ(verdict(),
            "rank 0 calls all_reduce of 7 uint8, op sum, rank 2 calls all_reduce of 8 uint8, op "
            "sum");
}

TEST_F(CallLedgerTest, AnEarlierCallOfAPeerIsCompared) {
  ledger_.Called(Reduces(7, 7));
  CallLedger peer(3);
  for (uint64_t number = 1; number < 20; ++number) peer.Called(Reduces(number, 1));
  const auto notes = DecodeCallNotes(peer.Notes(), 3);
  ASSERT_TRUE(notes.ok()) << notes.status();
  ledger_.Heard(1, *notes);
  EXPECT_EQ(verdict(),
            "rank 0 calls all_reduce of 7 uint8, op sum, rank 1 calls all_reduce of 1 uint8, op "
            "sum");
}

TEST_F(CallLedgerTest, PeersAreComparedWhenRank0HasNotArrived) {
  ledger_.Heard(1, {Reduces(1, 10)});
  ledger_.Heard(2, {Reduces(1, 20)});
  EXPECT_EQ(verdict(),
            "rank 1 calls all_reduce of 10 uint8, op sum, rank 2 calls all_reduce of 20 uint8, op "
            "sum");
}

TEST_F(CallLedgerTest, RanksThatLeaveInsteadAreGone) {
  const CallNote leaves{.number = 1, .leaves = true};
  ledger_.Called(leaves);
  ledger_.Heard(2, {leaves});
  EXPECT_EQ(ledger_.Check(), absl::OkStatus());
  ledger_.Heard(1, {Reduces(1, 10)});
  EXPECT_TRUE(absl::IsUnavailable(ledger_.Check()));
  EXPECT_EQ(verdict(), "ranks 0, 2 have left the group");
  EXPECT_EQ(GoneRanks(ledger_.Check()), (std::vector<int>{0, 2}));
}

TEST_F(CallLedgerTest, ANoteReplacesTheOneBefore) {
  ledger_.Heard(1, {Reduces(1, 10)});
  ledger_.Heard(1, {Reduces(2, 10)});
  ledger_.Heard(2, {Reduces(1, 20)});
  EXPECT_EQ(verdict(), "");
}

TEST_F(CallLedgerTest, PiecesAreComparedWithoutThoseOfRanksThatAreMissing) {
  ledger_.Heard(1, {Exchanges(1, {5, 0, 7}, {5, 0, 0})});
  EXPECT_EQ(verdict(), "");
  ledger_.Heard(2, {Exchanges(1, {0, 0, 0}, {0, 8, 0})});
  EXPECT_EQ(verdict(), "rank 1 sends 7 bytes to rank 2, which expects 8");
}

TEST(CallNoteTest, NotesSurviveAsText) {
  CallNote note = Exchanges(~uint64_t{0}, {1, 2, ~uint64_t{0}}, {0, 4, 5});
  note.shape.verb = CallShape::Verb::kScatter;
  const CallNote reduce{.number = 4,
                        .shape = {.kind = Call::kReduce,
                                  .type = DataType::kBfloat16,
                                  .op = ReduceOp::kMax,
                                  .order = ReduceOrder::kRank,
                                  .root = 2,
                                  .count = 77}};
  const CallNote leaves{.number = 9, .leaves = true};
  const std::vector<CallNote> notes{note, reduce, leaves};
  const auto decoded = DecodeCallNotes(Encode(notes), 3);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, notes);
}

TEST(CallNoteTest, TextThatIsNoNoteIsAnError) {
  const std::string good = Encode({Exchanges(1, {1, 2, 3}, {4, 5, 6})});
  ASSERT_TRUE(DecodeCallNotes(good, 3).ok());
  EXPECT_FALSE(DecodeCallNotes(good, 4).ok());  // pieces of another world
  for (size_t end = 0; end < good.size(); ++end)
    EXPECT_FALSE(DecodeCallNotes(good.substr(0, end), 3).ok()) << end;
  EXPECT_FALSE(DecodeCallNotes("1 0 99 7 0 0 0 0 0||", 3).ok());  // no such kind
  EXPECT_FALSE(DecodeCallNotes("1 0 1 7 0 0 0 x 0||", 3).ok());
}

}  // namespace
}  // namespace dp::engine
