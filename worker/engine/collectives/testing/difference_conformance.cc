// The part of the suite about calls that disagree.

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "worker/engine/collectives/local/local_group.h"
#include "worker/engine/collectives/testing/group_conformance.h"

namespace dp::engine {
namespace {

// The memory that the calls of a rank read and write.
class RankMemory {
 public:
  explicit RankMemory(int ranks) : floats_(300001), bytes_(160), gathered_(160u * ranks) {}

  absl::Span<float> floats() { return absl::MakeSpan(floats_).first(40); }
  absl::Span<float> many_floats() { return absl::MakeSpan(floats_); }
  absl::Span<uint8_t> bytes(size_t count) { return absl::MakeSpan(bytes_).first(count); }
  absl::Span<uint8_t> gathered() { return absl::MakeSpan(gathered_); }

 private:
  std::vector<float> floats_;
  std::vector<uint8_t> bytes_, gathered_;
};

// How a call of the last rank differs from those of the others, as each rank begins them.
struct Difference {
  std::string first, other;  // the calls as errors state them
  std::function<std::unique_ptr<Work>(Group&, RankMemory&, bool differs)> start;
};

using Begin = std::function<std::unique_ptr<Work>()>;

std::vector<std::unique_ptr<Work>> BeginBoth(const Begin& first, const Begin& second) {
  std::vector<std::unique_ptr<Work>> works;
  works.push_back(first());
  works.push_back(second());
  return works;
}

std::unique_ptr<Work> ExchangeNothing(Group& group, CallShape::Verb verb) {
  const auto ranks = static_cast<size_t>(group.size());
  return group.Exchange(std::vector<absl::Span<const uint8_t>>(ranks),
                        std::vector<absl::Span<uint8_t>>(ranks), verb);
}

std::vector<Difference> DifferencesOfReductions() {
  const std::string sum = "all_reduce of 40 float32, op sum";
  return {
      {sum, "all_reduce of 39 float32, op sum",
       [](Group& group, RankMemory& memory, bool differs) {
         return group.AllReduce(memory.floats().first(differs ? 39 : 40), ReduceOp::kSum);
       }},
      {sum, "all_reduce of 0 float32, op sum",
       [](Group& group, RankMemory& memory, bool differs) {
         return group.AllReduce(memory.floats().first(differs ? 0 : 40), ReduceOp::kSum);
       }},
      {sum, "all_reduce of 40 float32, op product",
       [](Group& group, RankMemory& memory, bool differs) {
         return group.AllReduce(memory.floats(), differs ? ReduceOp::kProduct : ReduceOp::kSum);
       }},
      {sum, "all_reduce of 40 int32, op sum",
       [](Group& group, RankMemory& memory, bool differs) {
         return group.AllReduce(
             {differs ? DataType::kInt32 : DataType::kFloat32, memory.bytes(160)}, ReduceOp::kSum);
       }},
      {"all_reduce of 40 float32, op avg", "all_reduce of 40 float32, op avg in rank order",
       [](Group& group, RankMemory& memory, bool differs) {
         return group.AllReduce(
             memory.floats(), {ReduceOp::kMean, differs ? ReduceOrder::kRank : ReduceOrder::kTree});
       }},
      {"reduce of 40 float32, op sum, to rank 0", "reduce of 40 float32, op sum, to rank 1",
       [](Group& group, RankMemory& memory, bool differs) {
         return group.Reduce(memory.floats(), ReduceOp::kSum, differs ? 1 : 0);
       }},
      // Large ones go another way, and begin to send before they hear anything.
      {"all_reduce of 300000 float32, op sum", "all_reduce of 300001 float32, op sum",
       [](Group& group, RankMemory& memory, bool differs) {
         return group.AllReduce(memory.many_floats().first(differs ? 300001 : 300000),
                                ReduceOp::kSum);
       }},
  };
}

std::vector<Difference> DifferencesOfMoves() {
  return {
      {"broadcast of 160 uint8 from rank 0", "broadcast of 160 uint8 from rank 1",
       [](Group& group, RankMemory& memory, bool differs) {
         return group.Broadcast(memory.bytes(160), differs ? 1 : 0);
       }},
      {"broadcast of 40 float32 from rank 0", "broadcast of 40 int32 from rank 0",
       [](Group& group, RankMemory& memory, bool differs) {
         const auto type = differs ? DataType::kInt32 : DataType::kFloat32;
         return group.Broadcast(Elements{type, memory.bytes(160)}, 0);
       }},
      {"all_gather of 20 float64", "all_gather of 40 float32",
       [](Group& group, RankMemory& memory, bool differs) {
         const auto type = differs ? DataType::kFloat32 : DataType::kFloat64;
         return group.AllGather(ConstElements{type, memory.bytes(160)}, memory.gathered());
       }},
      {"gather of float32", "gather of int32",
       [](Group& group, RankMemory& memory, bool differs) {
         const std::vector<absl::Span<const uint8_t>> sent(group.size(), memory.bytes(8));
         const std::vector<absl::Span<uint8_t>> received(group.size(), memory.bytes(8));
         return group.Exchange(sent, received, CallShape::Verb::kGather,
                               differs ? DataType::kInt32 : DataType::kFloat32);
       }},
      {"all_gather of 160 uint8", "broadcast of 160 uint8 from rank 0",
       [](Group& group, RankMemory& memory, bool differs) {
         if (differs) return group.Broadcast(memory.bytes(160), 0);
         return group.AllGather(memory.bytes(160), memory.gathered());
       }},
      {"barrier", "all_gather of 160 uint8",
       [](Group& group, RankMemory& memory, bool differs) {
         return differs ? group.AllGather(memory.bytes(160), memory.gathered()) : group.Barrier();
       }},
      {"barrier", "scatter",
       [](Group& group, RankMemory&, bool differs) {
         return differs ? ExchangeNothing(group, CallShape::Verb::kScatter) : group.Barrier();
       }},
  };
}

// Opens a group for the difference, and lets all ranks state it. The last rank goes on to a
// barrier, where ranks stand that needed nothing from the others.
void ExpectDifference(Groups groups, const Difference& difference) {
  const int odd = static_cast<int>(groups.size()) - 1;
  OnEveryRank(groups, [&](Group& group) {
    RankMemory memory(group.size());
    const bool differs = group.rank() == odd;
    const auto works = BeginBoth([&] { return difference.start(group, memory, differs); },
                                 [&] { return group.Barrier(); });
    (void)works[0]->Wait();  // OK on a rank that needed nothing from the others
    const absl::Status status = works[1]->Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                ::testing::EndsWith(absl::StrCat(": rank 0 calls ", difference.first, ", rank ",
                                                 odd, " calls ", difference.other)));
  });
}

}  // namespace

TEST_P(GroupConformance, CallsThatDisagreeFailOnEveryRankWithTheDifference) {
  if (alone()) GTEST_SKIP() << "one rank agrees with itself";
  if (!states_differences()) GTEST_SKIP() << "this backend states no difference";
  // In two batches: shared memory takes address space, of which the thread sanitizer leaves little.
  for (const auto& differences : {DifferencesOfReductions(), DifferencesOfMoves()}) {
    std::vector<std::jthread> cases;  // side by side, because some backends wait before they look
    for (const Difference& difference : differences)
      cases.emplace_back([this, difference] { ExpectDifference(Open(), difference); });
  }
}

TEST_P(GroupConformance, CallsInAnotherOrderFailOnEveryRankWithTheDifference) {
  if (alone()) GTEST_SKIP() << "one rank agrees with itself";
  if (!states_differences()) GTEST_SKIP() << "this backend states no difference";
  Groups groups = Open();
  OnEveryRank(groups, [&](Group& group) {
    RankMemory memory(group.size());
    const auto reduce = [&] { return group.AllReduce(memory.floats(), ReduceOp::kMax); };
    const auto broadcast = [&] { return group.Broadcast(memory.bytes(9), 0); };
    const bool odd = group.rank() == size() - 1;
    const auto works = odd ? BeginBoth(broadcast, reduce) : BeginBoth(reduce, broadcast);
    for (const auto& work : works)
      EXPECT_EQ(work->Wait().message(),
                absl::StrCat(odd ? "broadcast" : "all_reduce",
                             " 1: rank 0 calls all_reduce of 40 float32, op max, rank ", size() - 1,
                             " calls broadcast of 9 uint8 from rank 0"));
  });
}

TEST_P(GroupConformance, ARankThatIsLateIsAccusedOfNothing) {
  if (alone()) GTEST_SKIP() << "one rank waits for nobody";
  Groups groups = Open();
  OnEveryRank(groups, [&](Group& group) {
    std::vector<float> data(10, 1.0f);
    if (group.rank() == 0) {
      // Meanwhile the others wait for longer than any backend does before it looks at their calls.
      const Groups elsewhere = MakeLocalGroups(2);
      ASSERT_FALSE(elsewhere[0]->Barrier(absl::Milliseconds(1800))->Wait().ok());
    }
    for (int i = 0; i < 3; ++i)
      ASSERT_EQ(group.AllReduce(absl::MakeSpan(data), ReduceOp::kMax)->Wait(), absl::OkStatus());
  });
}

TEST_P(GroupConformance, PiecesOfUnexpectedSizeFailOnEveryRank) {
  if (alone()) GTEST_SKIP() << "one rank agrees with itself";
  if (!states_differences()) GTEST_SKIP() << "this backend states no difference";
  Groups groups = Open();
  OnEveryRank(groups, [&](Group& group) {
    // Rank 0 sends 7 bytes to the last rank, which expects 8; all other pieces are empty.
    std::vector<absl::Span<const uint8_t>> sent(size());
    std::vector<absl::Span<uint8_t>> received(size());
    std::vector<uint8_t> piece(8);
    if (group.rank() == 0) sent.back() = absl::MakeSpan(piece).first(7);
    if (group.rank() == size() - 1) received.front() = absl::MakeSpan(piece);
    absl::Status status = group.Exchange(sent, received)->Wait();
    const bool sends = group.rank() == 0 && senders_wait();
    const bool takes_part = sends || group.rank() == size() - 1;
    const bool passes = !takes_part && !all_meet().value_or(!status.ok());
    if (passes) {
      EXPECT_EQ(status, absl::OkStatus());
      status = group.Barrier()->Wait();
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(),
              absl::StrCat(passes ? "barrier 2" : "exchange 1", ": rank 0 sends 7 bytes to rank ",
                           size() - 1, ", which expects 8"));
  });
}

}  // namespace dp::engine
