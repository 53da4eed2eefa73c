#include "worker/engine/collectives/nccl/nccl_on_host.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/nccl/nccl_group.h"
#include "worker/engine/collectives/testing/awkward_values.h"
#include "worker/engine/collectives/testing/fake_nccl.h"
#include "worker/engine/collectives/testing/group_conformance.h"

namespace dp::engine {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 3;
// Pieces have 16 bytes in a gather, 64 elsewhere.
constexpr int64_t kStagingBytes = 64;
// In bytes and floats: nothing, less than a piece, whole pieces, and one more.
constexpr size_t kCounts[] = {0, 1, 5, 16, 17, 64, 100};

// Ranks on a device with memory of its own: the arrays of a test are host memory.
class NcclOnHostTest : public ::testing::Test {
 protected:
  NcclOnHostTest() : groups_(kRanks) {
    std::vector<std::jthread> threads;
    for (int r = 0; r < kRanks; ++r)
      threads.emplace_back([this, r] {
        auto group = ConnectNccl(nccl_, store_, r, kRanks,
                                 {.group = {.timeout = absl::Seconds(60)},
                                  .connect_timeout = absl::Seconds(60),
                                  .staging_bytes = kStagingBytes,
                                  .beat = absl::Milliseconds(50),
                                  .ask_ras = false});
        ASSERT_TRUE(group.ok()) << group.status();
        groups_[r] = *std::move(group);
      });
  }

  void OnHosts(const std::function<void(Group&)>& body) {
    OnEveryRank(groups_, [&](Group& group) { body(group.on_host()); });
  }

  FakeNccl nccl_{[](const void*, size_t) { return false; }};
  HashStore store_;
  Groups groups_;
};

TEST_F(NcclOnHostTest, TheHostsMemoryIsRefusedWhereTheDevicesIsMeant) {
  std::vector<float> data(4);
  const absl::Status status = groups_[0]->AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait();
  EXPECT_THAT(std::string(status.message()), HasSubstr("not of the device's memory"));
}

TEST_F(NcclOnHostTest, ReductionsOfAnyLengthAreThoseOfTheWhole) {
  for (const size_t count : kCounts) {
    OnHosts([&](Group& group) {
      std::vector<float> data = AwkwardValues(group.rank(), count);
      ASSERT_EQ(group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait(), absl::OkStatus());
      EXPECT_EQ(data, OrderedSum(kRanks, count));
    });
  }
}

TEST_F(NcclOnHostTest, BroadcastsOfAnyLengthGiveTheRootsBytes) {
  for (const size_t count : kCounts) {
    OnHosts([&](Group& group) {
      for (int root = 0; root < kRanks; ++root) {
        std::vector<uint8_t> data(count, static_cast<uint8_t>(group.rank() + 1));
        ASSERT_EQ(group.Broadcast(absl::MakeSpan(data), root)->Wait(), absl::OkStatus());
        EXPECT_EQ(data, std::vector<uint8_t>(count, static_cast<uint8_t>(root + 1)));
      }
    });
  }
}

TEST_F(NcclOnHostTest, GathersOfAnyLengthPutEachRanksBytesAtTheirPlace) {
  const auto byte = [](int rank, size_t i) { return static_cast<uint8_t>(rank * 101 + i); };
  for (const size_t count : kCounts) {
    OnHosts([&](Group& group) {
      std::vector<uint8_t> data, gathered(count * kRanks), expected;
      for (size_t i = 0; i < count; ++i) data.push_back(byte(group.rank(), i));
      for (int r = 0; r < kRanks; ++r)
        for (size_t i = 0; i < count; ++i) expected.push_back(byte(r, i));
      ASSERT_EQ(group.AllGather(absl::MakeConstSpan(data), absl::MakeSpan(gathered))->Wait(),
                absl::OkStatus());
      EXPECT_EQ(gathered, expected);
    });
  }
}

TEST_F(NcclOnHostTest, OperationsOfBothMemoriesKeepOneOrder) {
  OnEveryRank(groups_, [&](Group& group) {
    uint8_t* const on_device = *nccl_.Allocate(sizeof(float));
    auto* const value = reinterpret_cast<float*>(on_device);
    *value = 1.0f;
    std::vector<float> host = {2.0f};
    auto before = group.AllReduce(absl::MakeSpan(value, 1), ReduceOp::kSum);
    ASSERT_EQ(group.on_host().AllReduce(absl::MakeSpan(host), ReduceOp::kSum)->Wait(),
              absl::OkStatus());
    EXPECT_TRUE(before->done());
    EXPECT_EQ(*value, kRanks);
    EXPECT_EQ(host[0], 2 * kRanks);
    nccl_.Free(on_device);
  });
}

TEST_F(NcclOnHostTest, AnAbortFromAnotherThreadEndsACallThatWaits) {
  std::jthread aborter([&] { groups_[0]->Abort(absl::UnavailableError("generation 3 is over")); });
  std::vector<float> data(100);
  const absl::Status status =
      groups_[0]->on_host().AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("generation 3 is over"));
}

TEST_F(NcclOnHostTest, NothingIsLeftOnTheDevice) {
  groups_.clear();
  EXPECT_EQ(nccl_.live(), 0);
}

}  // namespace
}  // namespace dp::engine
