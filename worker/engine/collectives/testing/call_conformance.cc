// The part of the suite about single calls: every operation, type and reduction.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/engine/collectives/reduce/half_floats.h"
#include "worker/engine/collectives/reduce/ordered_reduce.h"
#include "worker/engine/collectives/testing/group_conformance.h"

namespace dp::engine {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr DataType kCallTypes[] = {DataType::kFloat32,  DataType::kFloat64, DataType::kFloat16,
                                   DataType::kBfloat16, DataType::kInt32,   DataType::kInt64,
                                   DataType::kUint8};

template <typename T>
void Append(T value, Bytes& to) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof(value));
}

// Elements whose reductions round, and depend on their order. They repeat after a prime number.
Bytes ValuesOf(DataType type, int rank, size_t count) {
  constexpr size_t kPeriod = 1021;
  Bytes bytes;
  for (size_t i = 0; i < kPeriod; ++i) {
    const int whole = 1 + (static_cast<int>(i) * 7 + rank * 13) % 23;
    const float real = static_cast<float>(whole) * (rank % 2 == 0 ? 1.1f : -0.013f);
    switch (type) {
      case DataType::kFloat32:
        Append(real, bytes);
        break;
      case DataType::kFloat64:
        Append(static_cast<double>(real) * 1.7, bytes);
        break;
      case DataType::kFloat16:
        Append(ToFloat16(real), bytes);
        break;
      case DataType::kBfloat16:
        Append(ToBfloat16(real), bytes);
        break;
      case DataType::kInt32:
        Append(int32_t{whole - 12}, bytes);
        break;
      case DataType::kInt64:
        Append(int64_t{whole - 12} << 33, bytes);
        break;
      case DataType::kUint8:
        Append(static_cast<uint8_t>(whole * 9), bytes);
        break;
    }
  }
  const size_t period = bytes.size(), wanted = count * SizeOf(type);
  bytes.resize(std::max(period, wanted));
  for (size_t at = period; at < wanted; at += period)
    std::memcpy(bytes.data() + at, bytes.data(), std::min(period, wanted - at));
  bytes.resize(wanted);
  return bytes;
}

// The values of all ranks, and their reductions by definition.
class RankValues {
 public:
  RankValues(DataType type, int ranks, size_t count) : type_(type) {
    for (int r = 0; r < ranks; ++r) values_.push_back(ValuesOf(type, r, count));
  }

  const Bytes& of(int rank) const { return values_[rank]; }
  // The reduction of the first `count` elements.
  Bytes Reduced(size_t count, Reduction reduction) const {
    std::vector<const void*> inputs;
    for (const Bytes& values : values_) inputs.push_back(values.data());
    Bytes out(count * SizeOf(type_));
    ReduceInOrder(inputs, type_, count, reduction, out.data());
    return out;
  }

 private:
  const DataType type_;
  std::vector<Bytes> values_;
};

std::vector<Reduction> ReductionsOf(DataType type) {
  std::vector<Reduction> reductions;
  for (ReduceOrder order : {ReduceOrder::kTree, ReduceOrder::kRank})
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct})
      reductions.emplace_back(op, order);
  if (IsFloat(type)) reductions.emplace_back(ReduceOp::kMean);
  return reductions;
}

// Sizes on both sides of the borders between a backend's ways.
constexpr size_t kCallCounts[] = {1, 33, 70001, 300000};
constexpr size_t kMostElements = 300000;

// The greatest size takes most of the time. A backend's way depends on the size and on the order,
// and a reduction's arithmetic does not depend on the way. Sums and means therefore suffice there.
bool IsTried(const Reduction& reduction, size_t count) {
  return count < kMostElements || reduction.op == ReduceOp::kSum || reduction.op == ReduceOp::kMean;
}

// The piece from rank `from` to rank `to` in an exchange. Pieces have many sizes, some none.
Bytes PieceOf(int from, int to) {
  const size_t sizes[] = {0, 5, 4096, 1, size_t{3} << 20, 77};
  const size_t size = sizes[(from * 4 + to * 3) % 6];
  return Bytes(size, static_cast<uint8_t>(from * 16 + to + 1));
}

}  // namespace

TEST_P(GroupConformance, EveryTypeIsReducedInTheOrderAsked) {
  Groups groups = Open();
  for (const DataType type : kCallTypes) {
    const RankValues values(type, size(), kMostElements);
    for (const Reduction& reduction : ReductionsOf(type))
      for (const size_t count : kCallCounts) {
        if (!IsTried(reduction, count)) continue;
        const Bytes expected = values.Reduced(count, reduction);
        OnEveryRank(groups, [&](Group& group) {
          const Bytes& mine = values.of(group.rank());
          Bytes data(mine.begin(), mine.begin() + count * SizeOf(type));
          ASSERT_EQ(group.AllReduce({type, absl::MakeSpan(data)}, reduction)->Wait(),
                    absl::OkStatus());
          ASSERT_TRUE(data == expected) << NameOf(type) << ", " << NameOf(reduction.op) << ", "
                                        << count << " elements, rank " << group.rank();
        });
      }
  }
}

TEST_P(GroupConformance, OnlyTheRootGetsAReduction) {
  Groups groups = Open();
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    const RankValues values(type, size(), kMostElements);
    for (const size_t count : kCallCounts) {
      const Bytes expected = values.Reduced(count, ReduceOp::kSum);
      OnEveryRank(groups, [&](Group& group) {
        for (int root = 0; root < size(); ++root) {
          const Bytes mine(values.of(group.rank()).begin(),
                           values.of(group.rank()).begin() + count * SizeOf(type));
          Bytes data = mine;
          ASSERT_EQ(group.Reduce({type, absl::MakeSpan(data)}, ReduceOp::kSum, root)->Wait(),
                    absl::OkStatus());
          ASSERT_TRUE(data == (group.rank() == root ? expected : mine))
              << count << " " << NameOf(type) << ", root " << root << ", rank " << group.rank();
        }
      });
    }
  }
}

TEST_P(GroupConformance, ReduceScatterGivesEachRankItsPart) {
  Groups groups = Open();
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kInt64}) {
    const auto ranks = static_cast<size_t>(size());
    const RankValues values(type, size(), kMostElements);
    for (const size_t most : kCallCounts)
      for (const bool in_place : {false, true}) {
        const size_t count = std::max<size_t>(most / ranks, 1), all = count * ranks;
        const size_t bytes = count * SizeOf(type);
        const Bytes whole = values.Reduced(all, ReduceOp::kSum);
        OnEveryRank(groups, [&](Group& group) {
          const Bytes& mine = values.of(group.rank());
          Bytes data(mine.begin(), mine.begin() + all * SizeOf(type)), apart(bytes);
          const size_t begin = bytes * static_cast<size_t>(group.rank());
          const absl::Span<uint8_t> part =
              in_place ? absl::MakeSpan(data).subspan(begin, bytes) : absl::MakeSpan(apart);
          ASSERT_EQ(group.ReduceScatter({type, data}, {type, part}, ReduceOp::kSum)->Wait(),
                    absl::OkStatus());
          ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin))
              << count << " " << NameOf(type) << ", rank " << group.rank();
        });
      }
  }
}

TEST_P(GroupConformance, AllGatherMayTakeItsDataFromItsPlace) {
  Groups groups = Open();
  for (const size_t bytes : {size_t{1}, size_t{2} << 20})
    OnEveryRank(groups, [&](Group& group) {
      Bytes gathered(bytes * static_cast<size_t>(size())), expected;
      const auto mine = absl::MakeSpan(gathered).subspan(bytes * group.rank(), bytes);
      std::fill(mine.begin(), mine.end(), static_cast<uint8_t>(group.rank() + 1));
      ASSERT_EQ(group.AllGather(mine, absl::MakeSpan(gathered))->Wait(), absl::OkStatus());
      for (int r = 0; r < size(); ++r)
        expected.insert(expected.end(), bytes, static_cast<uint8_t>(r + 1));
      ASSERT_TRUE(gathered == expected) << bytes;
    });
}

TEST_P(GroupConformance, ElementsOfAnyWidthAreBroadcastAndGathered) {
  Groups groups = Open();
  for (const size_t count : {size_t{1}, size_t{300001}})
    OnEveryRank(groups, [&](Group& group) {
      const auto ranks = static_cast<size_t>(size());
      std::vector<double> mine(count, group.rank() + 0.5), all(count * ranks), expected;
      const auto bytes = [](std::vector<double>& values) {
        return absl::MakeSpan(reinterpret_cast<uint8_t*>(values.data()), values.size() * 8);
      };
      ASSERT_EQ(group.AllGather(ConstElements{DataType::kFloat64, bytes(mine)}, bytes(all))->Wait(),
                absl::OkStatus());
      for (size_t r = 0; r < ranks; ++r)
        expected.insert(expected.end(), count, static_cast<double>(r) + 0.5);
      ASSERT_TRUE(all == expected) << count;
      ASSERT_EQ(group.Broadcast(Elements{DataType::kFloat64, bytes(mine)}, size() - 1)->Wait(),
                absl::OkStatus());
      ASSERT_EQ(mine, std::vector<double>(count, size() - 0.5)) << count;
    });
}

TEST_P(GroupConformance, AnExchangeGivesEachRankWhatIsForIt) {
  Groups groups = Open();
  for (int round = 0; round < 3; ++round)
    OnEveryRank(groups, [&](Group& group) {
      std::vector<Bytes> sent, received;
      for (int r = 0; r < size(); ++r) {
        sent.push_back(PieceOf(group.rank(), r));
        received.emplace_back(PieceOf(r, group.rank()).size());
      }
      std::vector<absl::Span<const uint8_t>> from(sent.begin(), sent.end());
      std::vector<absl::Span<uint8_t>> to;
      for (Bytes& piece : received) to.push_back(absl::MakeSpan(piece));
      ASSERT_EQ(group.Exchange(from, to)->Wait(), absl::OkStatus());
      for (int r = 0; r < size(); ++r)
        ASSERT_TRUE(received[r] == PieceOf(r, group.rank())) << r << " to " << group.rank();
    });
}

TEST_P(GroupConformance, NobodyPassesABarrierThatARankHasNotReached) {
  Groups groups = Open();
  std::atomic<int> arrived = 0;
  OnEveryRank(groups, [&](Group& group) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      ASSERT_EQ(group.Barrier()->Wait(), absl::OkStatus());
      ASSERT_GE(arrived, round * size());
    }
  });
}

TEST_P(GroupConformance, ABarrierWithATimeOfItsOwnNamesWhoIsLate) {
  if (alone()) GTEST_SKIP() << "one rank waits for nobody";
  if (!has_limits_of_calls()) GTEST_SKIP() << "this backend has one limit for all calls";
  Groups groups = Open();
  EXPECT_EQ(groups[0]->Barrier(absl::Milliseconds(50))->Wait().message(),
            absl::StrCat("barrier 1: ",
                         size() == 2   ? "rank 1"
                         : size() == 3 ? "ranks 1, 2"
                                       : "ranks 1, 2, 3",
                         " did not arrive within 50ms"));
}

}  // namespace dp::engine
