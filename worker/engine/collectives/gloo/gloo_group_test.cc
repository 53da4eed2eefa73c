#include "worker/engine/collectives/gloo/gloo_group.h"

#include <sys/resource.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/testing/group_conformance.h"

// Gloo leaks the addresses that it tried when none of them is usable.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:gloo::transport::tcp::CreateDeviceAttr";
}

namespace dp::engine {
namespace {

using ::testing::HasSubstr;

GlooOptions OnLoopback(absl::Duration timeout = absl::Seconds(60)) {
  return {
      .group = {.timeout = timeout}, .connect_timeout = absl::Seconds(60), .address = "127.0.0.1"};
}

Groups OpenGloo(int size, const GroupOptions& options) {
  HashStore store;
  Groups groups(size);
  std::vector<std::jthread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      auto group = ConnectGloo(store, r, size, OnLoopback(options.timeout));
      ASSERT_TRUE(group.ok()) << group.status();
      groups[r] = *std::move(group);
    });
  threads.clear();
  return groups;
}

INSTANTIATE_TEST_SUITE_P(GlooGroup, GroupConformance,
                         ::testing::Combine(::testing::Values(Backend{.open = OpenGloo,
                                                                      .all_meet = false}),
                                            ::testing::Range(1, 5)));
INSTANTIATE_TEST_SUITE_P(GlooGroup, MessageConformance,
                         ::testing::Combine(::testing::Values(Backend{.open = OpenGloo}),
                                            ::testing::Range(1, 5)));

TEST(GlooGroupTest, ARankThatLeavesWhileOthersCallIsGoneForThem) {
  for (const int leaving : {0, 2}) {
    Groups groups = OpenGloo(3, {});
    OnEveryRank(groups, [leaving](Group& group) {
      const bool leaves = group.rank() == leaving;
      const absl::Status status = (leaves ? group.Leave() : group.Barrier())->Wait();
      if (leaves) {
        EXPECT_EQ(status, absl::OkStatus());
        return;
      }
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_EQ(status.message(), absl::StrCat("barrier 1: rank ", leaving, " has left the group"));
      EXPECT_EQ(GoneRanks(status), std::vector<int>{leaving});
    });
  }
}

// Exchanges a byte with `peer` alone.
absl::Status ExchangeWith(Group& group, size_t peer) {
  uint8_t own = 7, other = 0;
  std::vector<absl::Span<const uint8_t>> sent(static_cast<size_t>(group.size()));
  std::vector<absl::Span<uint8_t>> received(sent.size());
  sent[peer] = {&own, 1};
  received[peer] = {&other, 1};
  return group.Exchange(sent, received)->Wait();
}

TEST(GlooGroupTest, ARankThatEndsBecauseOfAnotherIsNotNamed) {
  Groups groups = OpenGloo(3, {});
  groups[2].reset();
  EXPECT_EQ(ExchangeWith(*groups[1], 2).message(), "exchange 1: rank 2 went away");
  groups[1].reset();
  EXPECT_EQ(ExchangeWith(*groups[0], 1).message(), "exchange 1: rank 2 went away");
}

TEST(GlooGroupTest, ConnectNamesTheRanksThatDidNotArrive) {
  HashStore store;
  GlooOptions options = OnLoopback();
  options.connect_timeout = absl::Milliseconds(100);
  auto group = ConnectGloo(store, 1, 3, options);
  EXPECT_EQ(group.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(group.status().message(), "connect: ranks 0, 2 did not arrive within 100ms");
}

TEST(GlooGroupTest, ConnectEndsWhenItIsAskedToStop) {
  HashStore store;
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  auto group = ConnectGloo(store, 0, 2, OnLoopback(), stop.get_token());
  EXPECT_EQ(group.status().code(), absl::StatusCode::kAborted);
}

TEST(GlooGroupTest, ConnectNamesARankThatWentAwayAfterItPublishedItsAddress) {
  HashStore store;
  GlooOptions options = OnLoopback();
  options.connect_timeout = absl::Milliseconds(200);
  ASSERT_FALSE(ConnectGloo(store, 1, 2, options).ok());
  // Rank 0 is refused where it connects, and hears nothing where it listens.
  auto group = ConnectGloo(store, 0, 2, options);
  ASSERT_FALSE(group.ok());
  EXPECT_THAT(std::string(group.status().message()), HasSubstr("connect: rank 1"));
}

TEST(GlooGroupTest, RanksThatCallDifferentOperationsOfOneSizeMeetTheDeadline) {
  Groups groups = OpenGloo(2, {.timeout = absl::Milliseconds(100)});
  std::vector<float> data(10);
  std::vector<uint8_t> bytes(40), gathered(80);
  auto reduce = groups[0]->AllReduce(absl::MakeSpan(data), ReduceOp::kSum);
  auto gather = groups[1]->AllGather(absl::MakeConstSpan(bytes), absl::MakeSpan(gathered));
  EXPECT_FALSE(reduce->Wait().ok());
  EXPECT_FALSE(gather->Wait().ok());
}

TEST(GlooGroupTest, ARankLeavesWhenItsPeersDo) {
  Groups groups = OpenGloo(3, {});
  std::vector<std::unique_ptr<Work>> leaving;
  for (auto& group : groups) leaving.push_back(group->Leave());
  for (auto& work : leaving) EXPECT_EQ(work->Wait(), absl::OkStatus());
}

TEST(GlooGroupTest, ARankDoesNotLeaveBeforeItsPeers) {
  Groups groups = OpenGloo(2, {.timeout = absl::Milliseconds(100)});
  EXPECT_EQ(groups[0]->Leave()->Wait().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(GlooGroupTest, ALeavingRankDoesNotWaitForADeadPeer) {
  Groups groups = OpenGloo(2, {});
  auto leaving = groups[0]->Leave();
  groups[1].reset();
  EXPECT_EQ(leaving->Wait(), absl::OkStatus());
}

TEST(GlooGroupTest, AnAddressOfAnotherHostIsRefusedByName) {
  HashStore store;
  GlooOptions options = OnLoopback();
  options.address = "192.0.2.1";  // reserved for documentation: no host has it
  auto group = ConnectGloo(store, 0, 2, options);
  EXPECT_EQ(group.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(group.status().message()), HasSubstr("192.0.2.1"));
}

TEST(GlooGroupTest, AWorldWithMoreRanksThanDescriptorsIsALimit) {
  HashStore store;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlim_t before = std::exchange(limit.rlim_cur, 200);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const absl::Status status = ConnectGloo(store, 0, 2'000'000'000, OnLoopback()).status();
  limit.rlim_cur = before;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "gloo takes a socket for each of the 2000000000 ranks, and this process may have 200 "
            "open files; check the world size, or raise ulimit -n");
}

TEST(GlooGroupTest, AnInterfaceMayBeNamedInsteadOfAnAddress) {
  HashStore store;
  GlooOptions options = OnLoopback();
  options.interface = "lo";
  EXPECT_TRUE(ConnectGloo(store, 0, 1, options).ok());
  options.interface = "nonesuch0";
  EXPECT_THAT(std::string(ConnectGloo(store, 0, 1, options).status().message()),
              HasSubstr("nonesuch0"));
}

TEST(GlooGroupTest, CallsThatDoNotAgreeEndAtTheDeadline) {
  Groups groups = OpenGloo(2, {.timeout = absl::Milliseconds(200)});
  OnEveryRank(groups, [](Group& group) {
    std::vector<float> data(group.rank() == 0 ? 100 : 101);
    const absl::Status status = group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  });
}

}  // namespace
}  // namespace dp::engine
