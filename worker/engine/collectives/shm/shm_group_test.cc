#include "worker/engine/collectives/shm/shm_group.h"

#include <dirent.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/shm/host_card.h"
#include "worker/engine/collectives/shm/local_socket.h"
#include "worker/engine/collectives/shm/shared_segment.h"
#include "worker/engine/collectives/testing/awkward_values.h"
#include "worker/engine/collectives/testing/group_conformance.h"

namespace dp::engine {
namespace {

using ::testing::HasSubstr;

ShmOptions Within(absl::Duration timeout) {
  return {.group = {.timeout = timeout}, .connect_timeout = absl::Seconds(60)};
}

Groups OpenShm(int size, const GroupOptions& options) {
  HashStore store;
  Groups groups(size);
  std::vector<std::jthread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      auto group = ConnectShm(store, r, size, Within(options.timeout));
      ASSERT_TRUE(group.ok()) << group.status();
      groups[r] = *std::move(group);
    });
  threads.clear();
  return groups;
}

INSTANTIATE_TEST_SUITE_P(ShmGroup, GroupConformance,
                         ::testing::Combine(::testing::Values(Backend{OpenShm}),
                                            ::testing::Range(1, 5)));
INSTANTIATE_TEST_SUITE_P(ShmGroup, MessageConformance,
                         ::testing::Combine(::testing::Values(Backend{OpenShm}),
                                            ::testing::Range(1, 5)));

// Sizes around every border: of a slice, of a chunk, of the sums that are reduced whole.
TEST(ShmGroupTest, SumsOfEverySizeAreInTheOrderOfTheTree) {
  const size_t chunk = kSlotBytes / sizeof(float);
  Groups groups = OpenShm(3, {});
  for (const size_t count : {size_t{16383}, size_t{16384}, size_t{16385}, size_t{32769}, chunk - 1,
                             chunk, chunk + 1, 5 * chunk, 5 * chunk + 17, 9 * chunk - 3}) {
    const std::vector<float> expected = OrderedSum(3, count);
    OnEveryRank(groups, [&](Group& group) {
      std::vector<float> data = AwkwardValues(group.rank(), count);
      ASSERT_EQ(group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait(), absl::OkStatus());
      ASSERT_TRUE(SameBits(data, expected)) << "count " << count << " rank " << group.rank();
    });
  }
}

// The same sums where the data lies in the ranks' heaps, on all ranks or on some.
TEST(ShmGroupTest, DataInTheHeapsOfAllOrSomeRanksGivesTheSameSums) {
  const size_t chunk = kSlotBytes / sizeof(float), most = 5 * chunk + 17;
  for (const int ranks_with_heap : {4, 3, 1}) {
    Groups groups = OpenShm(4, {});
    OnEveryRank(groups, [&](Group& group) {
      std::vector<float> elsewhere(most);
      const absl::Span<uint8_t> heap = group.Allocate(most * sizeof(float));
      absl::Span<float> room = absl::MakeSpan(elsewhere);
      if (group.rank() < ranks_with_heap) room = {reinterpret_cast<float*>(heap.data()), most};
      for (const size_t count : {size_t{1000}, size_t{80000}, chunk - 1, 2 * chunk + 5, most}) {
        const std::vector<float> values = AwkwardValues(group.rank(), count);
        const absl::Span<float> data = room.first(count);
        std::copy(values.begin(), values.end(), data.begin());
        ASSERT_EQ(group.AllReduce(data, ReduceOp::kSum)->Wait(), absl::OkStatus());
        ASSERT_TRUE(SameBits<float>(data, OrderedSum(4, count)))
            << count << " elements, " << ranks_with_heap << " heaps, rank " << group.rank();
      }
    });
  }
}

TEST(ShmGroupTest, AllocatedMemoryIsApartAlignedAndZero) {
  Groups groups = OpenShm(2, {});
  for (auto& group : groups) {
    const absl::Span<uint8_t> one = group->Allocate(100), two = group->Allocate(1);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(one.data()) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(two.data()) % 64, 0u);
    EXPECT_GE(two.data(), one.data() + one.size());
    EXPECT_EQ(std::vector<uint8_t>(one.begin(), one.end()), std::vector<uint8_t>(100, 0));
  }
  EXPECT_NE(groups[0]->Allocate(8).data(), groups[1]->Allocate(8).data());
}

TEST(ShmGroupTest, MoreThanAHeapHoldsIsTheHostsMemory) {
  Groups groups = OpenShm(1, {});
  groups[0]->Allocate(kHeapBytes - 64);
  const absl::Span<uint8_t> more = groups[0]->Allocate(4096);
  more[4095] = 1;
  EXPECT_EQ(more.size(), 4096u);
}

// Slots are used again and again, by operations of every kind, and by ranks that do not keep step.
TEST(ShmGroupTest, NoOperationSeesTheSlotsOfAnother) {
  constexpr int kRounds = 24;
  const size_t chunk = kSlotBytes / sizeof(float);
  const size_t counts[] = {10, chunk + 5, 3, 6 * chunk, 2 * chunk, 100};
  Groups groups = OpenShm(3, {});
  constexpr size_t kMostBytes = 9 * kSlotBytes + 1;
  OnEveryRank(groups, [&](Group& group) {
    std::vector<uint8_t> own(kMostBytes), of_all(3 * kMostBytes);
    for (int i = 0; i < kRounds; ++i) {
      const auto mark = [i](int rank) { return static_cast<uint8_t>(i + rank); };
      std::vector<float> data(counts[i % 6], mark(group.rank()));
      ASSERT_TRUE(group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait().ok());
      ASSERT_TRUE(AllAre<float>(data, 3 * i + 3)) << "round " << i;
      const size_t bytes = i % 2 == 0 ? 7 : kMostBytes;
      const absl::Span<uint8_t> mine = absl::MakeSpan(own).first(bytes),
                                gathered = absl::MakeSpan(of_all).first(3 * bytes);
      std::fill(mine.begin(), mine.end(), mark(group.rank()));
      ASSERT_TRUE(group.AllGather(mine, gathered)->Wait().ok());
      for (int r = 0; r < 3; ++r)
        ASSERT_TRUE(AllAre<uint8_t>(gathered.subspan(r * bytes, bytes), mark(r))) << "round " << i;
      ASSERT_TRUE(group.Broadcast(mine, i % 3)->Wait().ok());
      ASSERT_TRUE(AllAre<uint8_t>(mine, mark(i % 3))) << "round " << i;
    }
  });
}

// The other peers wait for the root alone, and have all read what it has sent.
TEST(ShmGroupTest, ARankThatIsLateForABroadcastIsNamedAlone) {
  Groups groups = OpenShm(3, {.timeout = absl::Seconds(3)});
  std::vector<uint8_t> sent(9 * kSlotBytes), received(sent.size());
  auto root = groups[0]->Broadcast(absl::MakeSpan(sent), 0);
  auto peer = groups[1]->Broadcast(absl::MakeSpan(received), 0);
  EXPECT_EQ(root->Wait().message(), "broadcast 1: rank 2 did not arrive within 3s");
  EXPECT_EQ(peer->Wait().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(ShmGroupTest, CallsThatDisagreeAreInvalidOnEveryRankAndSayHow) {
  Groups groups = OpenShm(3, {});
  OnEveryRank(groups, [](Group& group) {
    std::vector<float> data(group.rank() == 2 ? 200000 : 100);
    const absl::Status status = group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(),
              "all_reduce 1: rank 0 calls all_reduce of 100 float32, op sum, rank 2 calls "
              "all_reduce of 200000 float32, op sum");
    EXPECT_EQ(group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait(), status);
  });
}

TEST(ShmGroupTest, OperationsOfDifferentKindsDisagreeEvenWithoutData) {
  Groups groups = OpenShm(2, {});
  std::vector<uint8_t> bytes(40);
  auto reduce = groups[0]->AllReduce(absl::Span<float>(), ReduceOp::kMax);
  auto broadcast = groups[1]->Broadcast(absl::MakeSpan(bytes), 1);
  EXPECT_EQ(
      reduce->Wait().message(),
      "all_reduce 1: rank 0 calls all_reduce of 0 float32, op max, rank 1 calls broadcast of 40 "
      "uint8 from rank 1");
  EXPECT_EQ(
      broadcast->Wait().message(),
      "broadcast 1: rank 0 calls all_reduce of 0 float32, op max, rank 1 calls broadcast of 40 "
      "uint8 from rank 1");
}

TEST(ShmGroupTest, ConnectNamesTheRanksThatDidNotArrive) {
  HashStore store;
  auto group = ConnectShm(store, 1, 3, {.connect_timeout = absl::Milliseconds(100)});
  EXPECT_EQ(group.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(group.status().message(), "connect: ranks 0, 2 did not arrive within 100ms");
}

TEST(ShmGroupTest, ConnectEndsWhenItIsAskedToStop) {
  HashStore store;
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  auto group = ConnectShm(store, 0, 2, {}, stop.get_token());
  EXPECT_EQ(group.status().code(), absl::StatusCode::kAborted);
}

TEST(ShmGroupTest, ARankOnAnotherHostIsNamedWithItsHost) {
  HashStore store;
  HostCard elsewhere = ThisHost();
  elsewhere.kernel = "another boot";
  elsewhere.host_name = "far-away";
  ASSERT_TRUE(store.Set("shm/1/arrived", Encode(elsewhere)).ok());
  const auto group = ConnectShm(store, 0, 2, {});
  EXPECT_EQ(group.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(group.status().message()), HasSubstr("rank 1 is on far-away"));
}

TEST(ShmGroupTest, MoreRanksThanShareMemoryAreRefused) {
  HashStore store;
  EXPECT_EQ(ConnectShm(store, 0, kSharingRanksMax + 1, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// The last rank cannot call: its card says that rank 0 listens where nobody does.
TEST(ShmGroupTest, ARankThatDoesNotReachRankZeroMakesAllGiveUpForItsReason) {
  HashStore store;
  HostCard rank_0 = ThisHost();
  rank_0.socket = "dp-shm-nobody-listens-here";
  ASSERT_TRUE(store.Set("shm/0/arrived", Encode(rank_0)).ok());
  ASSERT_TRUE(store.Set("shm/called/0/arrived", "").ok());
  const auto group = ConnectShm(store, 1, 2, {});
  EXPECT_EQ(group.status(),
            absl::FailedPreconditionError("the ranks cannot share memory: rank 1 does not reach "
                                          "rank 0: connect: Connection refused"));
}

// Calls rank 0 of a world of two as rank 1 would, with `token`.
absl::Status CallWithToken(HashStore& store, const std::string& token) {
  const auto text = store.Get("shm/0/arrived", absl::Seconds(60));
  const auto rank_0 = DecodeHostCard(*text);
  const auto call = ConnectLocally(rank_0->socket);
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const FileDescriptor read(ends[0]), write(ends[1]);
  EXPECT_TRUE(SendMessage(*call, "1 " + token, {read.get()}).ok());
  EXPECT_TRUE(store.Set("shm/1/arrived", Encode(ThisHost())).ok());
  EXPECT_TRUE(store.Set("shm/called/1/arrived", "").ok());
  EXPECT_TRUE(store.Get("shm/called/0/arrived", absl::Seconds(60)).ok());
  pollfd answer{call->get(), POLLIN, 0};
  EXPECT_EQ(poll(&answer, 1, 60000), 1);
  return ReceiveMessage(*call).status();
}

TEST(ShmGroupTest, ACallerWithoutTheTokenGetsNoMemory) {
  HashStore store;
  std::jthread stranger([&] {
    EXPECT_EQ(CallWithToken(store, "0123456789abcdef0123456789abcdef").code(),
              absl::StatusCode::kAborted);
  });
  EXPECT_EQ(ConnectShm(store, 0, 2, {}).status(), WentAway("connect", {1}));
}

TEST(ShmGroupTest, ARankLeavesWhenItsPeersDo) {
  Groups groups = OpenShm(3, {});
  std::vector<std::unique_ptr<Work>> leaving;
  for (auto& group : groups) leaving.push_back(group->Leave());
  for (auto& work : leaving) EXPECT_EQ(work->Wait(), absl::OkStatus());
}

TEST(ShmGroupTest, ARankDoesNotLeaveBeforeItsPeersAndNamesThem) {
  Groups groups = OpenShm(3, {.timeout = absl::Seconds(3)});
  auto leaving = groups[1]->Leave();
  EXPECT_EQ(groups[0]->Leave()->Wait().message(), "leave: rank 2 did not arrive within 3s");
  EXPECT_EQ(leaving->Wait().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(ShmGroupTest, ALeavingRankDoesNotWaitForAPeerThatIsGone) {
  Groups groups = OpenShm(2, {});
  auto leaving = groups[0]->Leave();
  groups[1].reset();
  EXPECT_EQ(leaving->Wait(), absl::OkStatus());
}

size_t OpenFiles() {
  size_t files = 0;
  DIR* const directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++files;
  closedir(directory);
  return files;
}

bool MapsASegment() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("dp-shm") != line.npos) return true;
  return false;
}

TEST(ShmGroupTest, TwoHundredGroupsLeaveNeitherFilesNorMemoryBehind) {
  const size_t before = OpenFiles();
  for (int i = 0; i < 200; ++i) {
    Groups groups = OpenShm(2, {});
    ASSERT_TRUE(MapsASegment());
  }
  EXPECT_EQ(OpenFiles(), before);
  EXPECT_FALSE(MapsASegment());
}

TEST(ShmGroupTest, AGroupThatCouldNotConnectLeavesNothingBehind) {
  const size_t before = OpenFiles();
  HashStore store;
  for (int rank : {0, 1})
    EXPECT_FALSE(ConnectShm(store, rank, 3, {.connect_timeout = absl::Milliseconds(1)}).ok());
  EXPECT_EQ(OpenFiles(), before);
  EXPECT_FALSE(MapsASegment());
}

}  // namespace
}  // namespace dp::engine
