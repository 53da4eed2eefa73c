#include "worker/engine/collectives/nccl_group.h"

#include <string>

#include "base/store/hash_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/testing/fake_nccl.h"
#include "worker/engine/collectives/testing/group_conformance.h"

namespace dp::engine {
namespace {

using ::testing::HasSubstr;

NcclOptions Options(absl::Duration timeout = absl::Seconds(60)) {
  return {.group = {.timeout = timeout}, .connect_timeout = absl::Seconds(60)};
}

Groups OpenOver(NcclApi& api, Store& store, int size, const GroupOptions& options) {
  Groups groups(size);
  std::vector<std::jthread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      auto group = ConnectNccl(api, store, r, size, Options(options.timeout));
      ASSERT_TRUE(group.ok()) << group.status();
      groups[r] = *std::move(group);
    });
  threads.clear();
  return groups;
}

Groups OpenOver(NcclApi& api, int size, const GroupOptions& options) {
  HashStore store;
  return OpenOver(api, store, size, options);
}

Groups OpenFakeNccl(int size, const GroupOptions& options) {
  static FakeNccl nccl;
  return OpenOver(nccl, size, options);
}

INSTANTIATE_TEST_SUITE_P(NcclGroup, GroupConformance,
                         ::testing::Combine(::testing::Values(Backend{OpenFakeNccl, false}),
                                            ::testing::Range(1, 5)));

TEST(NcclGroupTest, TheUniqueIdOfRankZeroTravelsThroughTheStore) {
  FakeNccl nccl;
  HashStore store;
  Groups groups = OpenOver(nccl, store, 2, {});
  EXPECT_EQ(store.Get("nccl/id", absl::ZeroDuration()).value(), std::string("id1\0binary", 10));
}

TEST(NcclGroupTest, ConnectNamesTheRanksThatDidNotArrive) {
  FakeNccl nccl;
  HashStore store;
  NcclOptions options = Options();
  options.connect_timeout = absl::Milliseconds(100);
  auto group = ConnectNccl(nccl, store, 1, 3, options);
  EXPECT_EQ(group.status().message(), "connect: ranks 0, 2 did not arrive within 100ms");
}

TEST(NcclGroupTest, ConnectEndsWhenItIsAskedToStop) {
  FakeNccl nccl;
  HashStore store;
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  auto group = ConnectNccl(nccl, store, 0, 2, Options(), stop.get_token());
  EXPECT_EQ(group.status().code(), absl::StatusCode::kAborted);
}

TEST(NcclGroupTest, AnErrorOfTheCommunicatorEndsTheOperationUnderWay) {
  FakeNccl nccl;
  Groups groups = OpenOver(nccl, 2, {});
  std::vector<float> data(4);
  auto work = groups[0]->AllReduce(absl::MakeSpan(data), ReduceOp::kSum);
  nccl.Fail(absl::UnavailableError("unhandled system error"));
  EXPECT_EQ(work->Wait(), absl::UnavailableError("all_reduce 1: unhandled system error"));
}

TEST(NcclGroupTest, AGroupThatWasAbortedBreaksTheCommunicatorForItsPeersWhenItEnds) {
  FakeNccl nccl;
  Groups groups = OpenOver(nccl, 2, {});
  std::vector<float> theirs(4);
  auto work = groups[1]->AllReduce(absl::MakeSpan(theirs), ReduceOp::kSum);
  groups[0]->Abort(absl::UnavailableError("generation 2 is over"));
  groups[0].reset();
  EXPECT_THAT(std::string(work->Wait().message()), HasSubstr("remote process exited"));
}

TEST(NcclGroupTest, NothingIsLeftOpenAfterSuccessOrFailure) {
  FakeNccl nccl;
  { Groups groups = OpenOver(nccl, 3, {}); }
  EXPECT_EQ(nccl.live(), 0);
  {
    Groups groups = OpenOver(nccl, 2, {.timeout = absl::Milliseconds(50)});
    std::vector<float> data(4);
    for (const char* how : {"late", "never begun"})
      ASSERT_FALSE(groups[0]->AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait().ok()) << how;
  }
  EXPECT_EQ(nccl.live(), 0);
}

TEST(NcclGroupTest, NcclIsLoadedOrSaysWhyNot) {
  auto api = LoadNccl();
  if (api.ok()) return;
  EXPECT_THAT(std::string(api.status().message()),
              ::testing::AnyOf(HasSubstr("built without NCCL"), HasSubstr("cannot load lib")));
}

}  // namespace
}  // namespace dp::engine
