#include "worker/library/memory/group_memory.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/testing/fake_nccl.h"

namespace dp::library {
namespace {

using distributed::MutableElements;
using ::testing::ElementsAre;

class GroupMemoryTest : public ::testing::Test {
 protected:
  GroupMemory OnGpu() { return {GpuUse{.cuda = &nccl_}, "test"}; }

  engine::FakeNccl nccl_{[](const void*, size_t) { return false; }};
};

TEST_F(GroupMemoryTest, MemoryThatIsGivenBackIsLentAgain) {
  {
    GroupMemory memory = OnGpu();
    BorrowedMemory first = memory.Borrow(64), second = memory.Borrow(64);
    const uint8_t* const place = first->data();
    EXPECT_NE(second->data(), place);
    first.reset();
    EXPECT_EQ(nccl_.live(), 2);
    EXPECT_EQ(memory.Borrow(64)->data(), place);
    memory.FreeSpare();
    EXPECT_EQ(nccl_.live(), 1);
    EXPECT_TRUE(memory.Borrow(0)->empty());
  }
  EXPECT_EQ(nccl_.live(), 0);
}

// Copies, zeros and sums, and the way there and back.
void ExpectArithmetic(GroupMemory& memory) {
  std::vector<float> values(kSumChunk + 2, 1), read(values.size());
  values[1] = 3;
  const size_t bytes = values.size() * sizeof(float);
  const BorrowedMemory one = memory.Borrow(bytes), two = memory.Borrow(bytes);
  memory.Write(values.data(), *one);
  memory.Copy(*one, two->data());
  memory.Zero(one->subspan(0, 4));
  memory.Read(*one, read.data());
  EXPECT_EQ(read[0], 0);
  EXPECT_EQ(read[1], 3);
  const MutableElements copy(two->data(), values.size(), distributed::DataType::kFloat32);
  EXPECT_EQ(memory.SumOfSquares({copy, {two->data(), 2, distributed::DataType::kFloat32}}),
            kSumChunk + 2 + 8 + 10);
  EXPECT_EQ(memory.SumOfSquares({}), 0);
  memory.Scale(copy, 2);
  memory.Read(*two, read.data());
  EXPECT_THAT(absl::MakeSpan(read).subspan(0, 3), ElementsAre(2, 6, 2));
  const BorrowedMemory half = memory.Borrow(4);
  memory.Convert({two->data(), 2, distributed::DataType::kFloat32},
                 {half->data(), 2, distributed::DataType::kBfloat16});
  distributed::Bfloat16 halves[2];
  memory.Read(*half, halves);
  EXPECT_EQ(static_cast<float>(halves[1]), 6);
}

TEST_F(GroupMemoryTest, BothMemoriesComputeAlike) {
  GroupMemory host(std::nullopt, "test"), gpu = OnGpu();
  EXPECT_FALSE(host.is_gpu());
  EXPECT_TRUE(gpu.is_gpu());
  ExpectArithmetic(host);
  ExpectArithmetic(gpu);
}

}  // namespace
}  // namespace dp::library
