#include "worker/engine/collectives/shm/shm_operations.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace dp::engine {
namespace {

constexpr size_t kChunks = 9;

// Rank 0 runs operations on a thread; the test plays rank 1, tick by tick. Nobody spins.
class ShmOperationsTest : public ::testing::Test {
 protected:
  ShmOperationsTest() {
    rank_.SetLate(
        [](const std::vector<int>&) { return absl::InternalError("a wait was interrupted"); });
  }

  // Rank 1 calls what rank 0 has called.
  void BeginAsPeer() {
    ASSERT_EQ(peer_.AwaitTickOf(0, 1), RankTicks::Wait::kReached);
    segment_.record(1).calls[1] = segment_.record(0).calls[1];
    peer_.Tick();
  }
  void AwaitSleepOfRank0() const {
    while (segment_.record(0).awaits.load() == 0) std::this_thread::yield();
  }

  const FileDescriptor file_ = *SharedSegment::MakeFile(2);
  const SharedSegment segment_ = *SharedSegment::Map(file_, 2);
  RankTicks ticks_{segment_, 0, 2, SpinPolicy(/*cores=*/1, /*ranks=*/2)};
  RankTicks peer_{segment_, 1, 2, SpinPolicy(/*cores=*/1, /*ranks=*/2)};
  ShmRank rank_{segment_, ticks_, 0, 2};
};

TEST_F(ShmOperationsTest, TheRootOfABroadcastOverwritesNoChunkThatAPeerHasYetToRead) {
  std::vector<uint8_t> sent(kChunks * kSlotBytes);
  for (size_t c = 0; c < kChunks; ++c) {
    std::memset(sent.data() + c * kSlotBytes, static_cast<int>(c + 1), kSlotBytes);
  }
  std::jthread root([&] {
    const Collective call{
        .shape = {.kind = CallShape::Kind::kBroadcast, .root = 0, .count = sent.size()},
        .input = sent,
        .output = absl::MakeSpan(sent)};
    EXPECT_EQ(RunOverShm(rank_, call), absl::OkStatus());
  });
  BeginAsPeer();
  for (size_t c = 0; c < kChunks; ++c) {
    ASSERT_EQ(peer_.AwaitTickOf(0, c + 1), RankTicks::Wait::kReached);
    if (c + 3 < kChunks) AwaitSleepOfRank0();  // it has written all that it may
    EXPECT_EQ(segment_.slot(0, c)[0], c + 1);
    EXPECT_EQ(segment_.slot(0, c)[kSlotBytes - 1], c + 1);
    if (c + 1 < kChunks) peer_.Tick();
  }
}

TEST_F(ShmOperationsTest, ASumWaitsForThePartOfEveryPeer) {
  std::vector<float> data(2, 1.0f);
  std::jthread rank_0([&] {
    const Elements elements = absl::MakeSpan(data);
    const Collective call{.shape = {.kind = CallShape::Kind::kAllReduce,
                                    .type = elements.type,
                                    .count = elements.count()},
                          .input = elements.bytes,
                          .output = elements.bytes};
    EXPECT_EQ(RunOverShm(rank_, call), absl::OkStatus());
  });
  AwaitSleepOfRank0();
  EXPECT_EQ(data[0], 1.0f);
  *reinterpret_cast<float*>(segment_.slot(1, 0)) = 2.0f;
  BeginAsPeer();
  rank_0.join();
  EXPECT_EQ(data[0], 3.0f);
}

// The peer writes its slice of the sum into the heap of rank 0.
TEST_F(ShmOperationsTest, ASumInHeapsEndsWhenEveryPeerHasWrittenItsSlice) {
  constexpr size_t kCount = 100000;
  const auto in_heap = [&](int rank) {
    return absl::MakeSpan(reinterpret_cast<float*>(segment_.heap(rank)), kCount);
  };
  std::fill(in_heap(0).begin(), in_heap(0).end(), 1.0f);
  std::fill(in_heap(1).begin(), in_heap(1).end(), 2.0f);
  std::jthread rank_0([&] {
    const Elements data = in_heap(0);
    const Collective call{
        .shape = {.kind = CallShape::Kind::kAllReduce, .type = data.type, .count = data.count()},
        .input = data.bytes,
        .output = data.bytes};
    EXPECT_EQ(RunOverShm(rank_, call), absl::OkStatus());
    EXPECT_EQ(in_heap(0).back(), 3.0f);
  });
  BeginAsPeer();
  ASSERT_EQ(peer_.AwaitTickOf(0, 2), RankTicks::Wait::kReached);
  AwaitSleepOfRank0();
  EXPECT_EQ(in_heap(1).front(), 3.0f);
  EXPECT_EQ(in_heap(0).back(), 1.0f);
  const Slice mine = SliceOf(kCount, 1, 2);
  for (size_t i = mine.begin; i < kCount; ++i) in_heap(0)[i] = 3.0f;
  peer_.Tick();
}

}  // namespace
}  // namespace dp::engine
