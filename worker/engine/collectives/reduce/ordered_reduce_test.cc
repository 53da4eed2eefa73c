#include "worker/engine/collectives/reduce/ordered_reduce.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/reduce/half_floats.h"
#include "worker/engine/collectives/testing/awkward_values.h"

namespace dp::engine {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kMean,
                             ReduceOp::kProduct};
constexpr ReduceOrder kOrders[] = {ReduceOrder::kTree, ReduceOrder::kRank};

TEST(SliceOfTest, SlicesCoverEverythingOnceInOrder) {
  for (size_t total : {size_t{0}, size_t{1}, size_t{16}, size_t{33}, size_t{1000}})
    for (int size = 1; size <= 5; ++size) {
      size_t next = 0;
      for (int r = 0; r < size; ++r) {
        const Slice slice = SliceOf(total, r, size);
        EXPECT_EQ(slice.begin, next);
        next += slice.count;
      }
      EXPECT_EQ(next, total);
    }
}

// How each type is computed: in itself, or as float32.
template <typename T>
struct Arithmetic {
  using Wide = T;
  static Wide Widen(T value) { return value; }
  static T Narrow(Wide value) { return value; }
};
template <>
struct Arithmetic<Float16> {
  using Wide = float;
  static float Widen(Float16 value) { return ToFloat(value); }
  static Float16 Narrow(float value) { return ToFloat16(value); }
};
template <>
struct Arithmetic<Bfloat16> {
  using Wide = float;
  static float Widen(Bfloat16 value) { return ToFloat(value); }
  static Bfloat16 Narrow(float value) { return ToBfloat16(value); }
};

// Unsigned, where the signed result would overflow.
template <typename Wide>
Wide Combined(ReduceOp op, Wide a, Wide b) {
  switch (op) {
    case ReduceOp::kMin:
      return b < a ? b : a;
    case ReduceOp::kMax:
      return a < b ? b : a;
    default:
      break;
  }
  if constexpr (std::is_integral_v<Wide>) {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<Wide>(op == ReduceOp::kProduct ? x * y : x + y);
  } else {
    return op == ReduceOp::kProduct ? a * b : a + b;
  }
}

template <typename T>
class OrderedReduceTest : public ::testing::Test {
 protected:
  using Wide = typename Arithmetic<T>::Wide;
  static constexpr DataType kType = DataTypeOf<T>();

  // Values of all magnitudes; integers overflow.
  static std::vector<T> Values(int rank, size_t count) {
    uint64_t seed = static_cast<uint64_t>(rank) * 1000003 + 17;
    std::vector<T> values(count);
    for (T& value : values) {
      seed = NextRandom(seed);
      if constexpr (std::is_integral_v<Wide>)
        value = static_cast<T>(seed >> (seed % 40));
      else
        value = Arithmetic<T>::Narrow(
            static_cast<Wide>(std::ldexp(1.0 + double(seed % 1000) / 1000, int(seed >> 60) - 8)) *
            static_cast<Wide>((seed >> 20) % 2 == 0 ? 1 : -1));
    }
    return values;
  }

  static Wide Expected(const std::vector<std::vector<T>>& values, size_t first, size_t n, size_t i,
                       Reduction reduction) {
    if (n == 1) return Arithmetic<T>::Widen(values[first][i]);
    size_t left = 1;
    while (left * 2 < n) left *= 2;
    if (reduction.order == ReduceOrder::kRank) left = n - 1;
    return Combined(reduction.op, Expected(values, first, left, i, reduction),
                    Expected(values, first + left, n - left, i, reduction));
  }

  static T ExpectedResult(const std::vector<std::vector<T>>& values, size_t i,
                          Reduction reduction) {
    Wide result = Expected(values, 0, values.size(), i, reduction);
    if (reduction.op == ReduceOp::kMean && values.size() > 1)
      result = static_cast<Wide>(result * (Wide{1} / static_cast<Wide>(values.size())));
    return Arithmetic<T>::Narrow(result);
  }

  static bool Offered(ReduceOp op) { return op != ReduceOp::kMean || IsFloat(kType); }
};
using AllTypes = ::testing::Types<float, double, Float16, Bfloat16, int32_t, int64_t, uint8_t>;
TYPED_TEST_SUITE(OrderedReduceTest, AllTypes);

TYPED_TEST(OrderedReduceTest, EveryInstructionSetGivesTheBitsOfTheDefinition) {
  const size_t count = 2500;  // more than two blocks, and a rest
  for (const ReduceLoops* loops : LoopsOfThisProcessor())
    for (ReduceOp op : kOps)
      for (ReduceOrder order : kOrders)
        for (int ranks = 1; ranks <= 9; ++ranks) {
          if (!this->Offered(op)) continue;
          SCOPED_TRACE(absl::StrCat(loops->instructions, ", op ", NameOf(op), ", order ",
                                    static_cast<int>(order), ", ", ranks, " ranks"));
          std::vector<std::vector<TypeParam>> values;
          std::vector<const void*> inputs;
          for (int r = 0; r < ranks; ++r) values.push_back(this->Values(r, count));
          for (const auto& v : values) inputs.push_back(v.data());
          std::vector<TypeParam> out(count), expected(count);
          for (size_t i = 0; i < count; ++i)
            expected[i] = this->ExpectedResult(values, i, {op, order});
          ReduceInOrder(inputs, this->kType, count, {op, order}, out.data(), *loops);
          ASSERT_EQ(std::memcmp(out.data(), expected.data(), count * sizeof(TypeParam)), 0);
        }
}

TYPED_TEST(OrderedReduceTest, TheOutputMayBeAnyInput) {
  for (ReduceOrder order : kOrders)
    for (int ranks = 1; ranks <= 5; ++ranks)
      for (int mine = 0; mine < ranks; ++mine) {
        const size_t count = 1500;
        std::vector<std::vector<TypeParam>> values;
        std::vector<const void*> inputs;
        for (int r = 0; r < ranks; ++r) values.push_back(this->Values(r, count));
        for (const auto& v : values) inputs.push_back(v.data());
        std::vector<TypeParam> expected(count);
        ReduceInOrder(inputs, this->kType, count, {ReduceOp::kSum, order}, expected.data());
        ReduceInOrder(inputs, this->kType, count, {ReduceOp::kSum, order}, values[mine].data());
        ASSERT_EQ(std::memcmp(values[mine].data(), expected.data(), count * sizeof(TypeParam)), 0)
            << ranks << " ranks, rank " << mine;
      }
}

// Other tests expect these.
TEST(AwkwardValuesTest, ArraysOfAnyLengthHaveTheValuesThatTheDefinitionGives) {
  for (const size_t count : {size_t{0}, size_t{3}, kAwkwardPeriod, size_t{1000}}) {
    const std::vector<float> values = AwkwardValues(3, count), sum = OrderedSum(5, count);
    ASSERT_EQ(values.size(), count);
    ASSERT_EQ(sum.size(), count);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(values[i], AwkwardValue(3, i)) << i;
      ASSERT_EQ(sum[i], SumOfRanks(0, 5, i, ReduceOrder::kTree)) << i;
    }
  }
}

TEST(AwkwardValuesTest, OneBitMakesArraysDiffer) {
  const std::vector<float> fours(100, 4);
  EXPECT_TRUE(SameBits(fours, fours));
  EXPECT_TRUE(AllAre<float>(fours, 4));
  EXPECT_FALSE(AllAre<float>(fours, 5));
  EXPECT_FALSE(SameBits(fours, std::vector<float>(99, 4)));
  for (const size_t place : {0, 50, 99}) {
    std::vector<float> other = fours;
    other[place] = std::nextafter(4.0f, 5.0f);
    EXPECT_FALSE(SameBits(fours, other)) << place;
    EXPECT_FALSE(AllAre<float>(other, 4)) << place;
  }
}

TEST(ReduceOrderTest, TheTreeDiffersFromRankOrderFromFourRanksOn) {
  for (int ranks = 1; ranks <= 3; ++ranks)
    EXPECT_EQ(OrderedSum(ranks, 17), OrderedSum(ranks, 17, ReduceOrder::kRank));
  EXPECT_NE(OrderedSum(4, 17), OrderedSum(4, 17, ReduceOrder::kRank));
}

// A promise of the tree: ranks that hold aligned blocks of the values give the same bits.
TEST(ReduceOrderTest, AlignedBlocksMayBeReducedFirst) {
  constexpr size_t kCount = 100;
  std::vector<std::vector<float>> values;
  for (int r = 0; r < 8; ++r) values.push_back(AwkwardValues(r, kCount));
  for (size_t block : {2, 4}) {
    std::vector<std::vector<float>> sums;
    std::vector<const void*> blocks;
    for (size_t first = 0; first < 8; first += block) {
      std::vector<const void*> inputs;
      for (size_t r = first; r < first + block; ++r) inputs.push_back(values[r].data());
      sums.emplace_back(kCount);
      ReduceInOrder(inputs, DataType::kFloat32, kCount, ReduceOp::kSum, sums.back().data());
    }
    for (const auto& sum : sums) blocks.push_back(sum.data());
    std::vector<float> out(kCount);
    ReduceInOrder(blocks, DataType::kFloat32, kCount, ReduceOp::kSum, out.data());
    EXPECT_EQ(out, OrderedSum(8, kCount)) << "blocks of " << block;
  }
}

}  // namespace
}  // namespace dp::engine
