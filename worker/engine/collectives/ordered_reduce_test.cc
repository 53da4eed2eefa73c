#include "worker/engine/collectives/ordered_reduce.h"

#include <vector>

#include "gtest/gtest.h"
#include "worker/engine/collectives/testing/awkward_values.h"

namespace dp::engine {
namespace {

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

TEST(ReduceInOrderTest, AddsFromTheFirstInputToTheLast) {
  for (int size = 1; size <= 4; ++size) {
    const size_t count = 2500;  // more than two blocks, and a rest
    std::vector<std::vector<float>> values;
    std::vector<const float*> inputs;
    for (int r = 0; r < size; ++r) values.push_back(AwkwardValues(r, count));
    for (const auto& v : values) inputs.push_back(v.data());
    std::vector<float> out(count);
    ReduceInOrder(inputs, count, ReduceOp::kSum, out.data());
    EXPECT_EQ(out, SumInRankOrder(size, count));
  }
}

TEST(ReduceInOrderTest, TheOutputMayBeAnyInput) {
  for (int size = 1; size <= 4; ++size)
    for (int mine = 0; mine < size; ++mine) {
      std::vector<std::vector<float>> values;
      std::vector<const float*> inputs;
      for (int r = 0; r < size; ++r) values.push_back(AwkwardValues(r, 1500));
      for (const auto& v : values) inputs.push_back(v.data());
      ReduceInOrder(inputs, 1500, ReduceOp::kSum, values[mine].data());
      EXPECT_EQ(values[mine], SumInRankOrder(size, 1500));
    }
}

}  // namespace
}  // namespace dp::engine
