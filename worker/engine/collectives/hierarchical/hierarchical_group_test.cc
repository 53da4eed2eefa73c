#include "worker/engine/collectives/hierarchical/hierarchical_group.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/hierarchical/host_meeting.h"
#include "worker/engine/collectives/hierarchical/staging_area.h"
#include "worker/engine/collectives/shm/shm_group.h"
#include "worker/engine/collectives/testing/awkward_values.h"
#include "worker/engine/collectives/testing/group_conformance.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;

// The hosts that the ranks of a test are said to be on, by rank: "aab".
using Placement = std::string;

HierarchicalOptions OnHost(char host, absl::Duration timeout = absl::Minutes(1)) {
  return {.group = {.timeout = timeout},
          .connect_timeout = absl::Seconds(60),
          .address = "127.0.0.1",
          .interface = "",
          .host = std::string(1, host)};
}

std::vector<ConnectedHosts> Connect(const Placement& placement, const GroupOptions& options = {}) {
  HashStore store;
  const int size = static_cast<int>(placement.size());
  std::vector<ConnectedHosts> connected(placement.size());
  std::vector<std::jthread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      auto rank = ConnectHierarchical(store, r, size, OnHost(placement[r], options.timeout));
      ASSERT_TRUE(rank.ok()) << rank.status();
      connected[r] = *std::move(rank);
    });
  threads.clear();
  return connected;
}

Groups OpenOn(const Placement& placement, const GroupOptions& options = {}) {
  Groups groups;
  for (ConnectedHosts& rank : Connect(placement, options)) groups.push_back(std::move(rank.group));
  return groups;
}

// The first ranks of a placement that repeats.
Backend Placed(const Placement& placement) {
  return {.open =
              [placement](int size, const GroupOptions& options) {
                Placement hosts;
                while (static_cast<int>(hosts.size()) < size) hosts += placement;
                return OpenOn(hosts.substr(0, static_cast<size_t>(size)), options);
              },
          .all_meet = std::nullopt};
}

INSTANTIATE_TEST_SUITE_P(InRows, GroupConformance,
                         ::testing::Combine(::testing::Values(Placed("aabb")),
                                            ::testing::Range(2, 5)));
INSTANTIATE_TEST_SUITE_P(InTurn, GroupConformance,
                         ::testing::Combine(::testing::Values(Placed("abab")),
                                            ::testing::Range(3, 5)));
INSTANTIATE_TEST_SUITE_P(ThreeAndOne, GroupConformance,
                         ::testing::Combine(::testing::Values(Placed("abbb")),
                                            ::testing::Values(4)));
INSTANTIATE_TEST_SUITE_P(TwoAndTwoAlone, GroupConformance,
                         ::testing::Combine(::testing::Values(Placed("abca")),
                                            ::testing::Values(4)));

TEST(HierarchicalGroupTest, TheBackendFollowsFromWhereTheRanksAre) {
  for (const auto& [placement, backend] : std::vector<std::pair<Placement, std::string>>{
           {"aaa", "shm"}, {"abc", "gloo"}, {"aab", "hierarchical"}, {"a", "gloo"}})
    for (const ConnectedHosts& rank : Connect(placement))
      EXPECT_EQ(rank.backend, backend) << placement;
}

// Sizes around every border: of a slice, of a chunk, of sums that take one level.
TEST(HierarchicalGroupTest, SumsOfEverySizeHaveTheBitsOfTheTree) {
  const size_t chunk = size_t{4} << 20 >> 2;  // of floats
  for (const Placement placement : {"aabbb", "abacb", "aaaabb"}) {
    Groups groups = OpenOn(placement);
    const int size = static_cast<int>(placement.size());
    for (const size_t count :
         {size_t{13000}, size_t{14000}, size_t{100003}, chunk - 1, chunk + 1, 3 * chunk + 17}) {
      const std::vector<float> expected = OrderedSum(size, count);
      OnEveryRank(groups, [&](Group& group) {
        std::vector<float> data = AwkwardValues(group.rank(), count);
        ASSERT_EQ(group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait(), absl::OkStatus());
        ASSERT_TRUE(SameBits(data, expected))
            << placement << " " << count << " rank " << group.rank();
      });
    }
  }
}

// Staging is used again and again, by operations of every kind, and by ranks that do not keep step.
TEST(HierarchicalGroupTest, NoOperationSeesTheStagingOfAnother) {
  // Two chunks are staged at a time, so five use each place again.
  constexpr size_t kChunk = StagingArea::kAreaBytes / sizeof(float), kMost = 4 * kChunk + 5;
  Groups groups = OpenOn("aabb");
  OnEveryRank(groups, [&](Group& group) {
    const size_t counts[] = {10, 3 * kChunk, 300000, 3, kMost};
    std::vector<float> floats(kMost), results(kMost);
    std::vector<uint8_t> bytes(3 * kMost);
    for (int i = 0; i < 15; ++i) {
      const auto mark = [i](int rank) { return static_cast<uint8_t>(i + rank); };
      const size_t count = counts[i % 5];
      const absl::Span<float> data = absl::MakeSpan(floats).first(count),
                              part = absl::MakeSpan(results).first(count / 4);
      std::fill(data.begin(), data.end(), mark(group.rank()));
      ASSERT_TRUE(group.AllReduce(data, ReduceOp::kSum)->Wait().ok());
      ASSERT_TRUE(AllAre<float>(data, 4 * i + 6)) << "round " << i;
      std::fill(data.begin(), data.end(), mark(group.rank()));
      ASSERT_TRUE(
          group.ReduceScatter(data.first(4 * part.size()), part, ReduceOp::kMax)->Wait().ok());
      ASSERT_TRUE(AllAre<float>(part, i + 3)) << "round " << i;
      const absl::Span<uint8_t> sent = absl::MakeSpan(bytes).first(3 * count);
      std::fill(sent.begin(), sent.end(), mark(group.rank()));
      ASSERT_TRUE(group.Broadcast(sent, i % 4)->Wait().ok());
      ASSERT_TRUE(AllAre<uint8_t>(sent, mark(i % 4))) << "round " << i;
    }
  });
}

TEST(HierarchicalGroupTest, ConnectNamesTheRanksThatDidNotArrive) {
  HashStore store;
  HierarchicalOptions options = OnHost('a');
  options.connect_timeout = absl::Milliseconds(100);
  const auto rank = ConnectHierarchical(store, 1, 3, options);
  EXPECT_EQ(rank.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(rank.status().message(), "connect: ranks 0, 2 did not arrive within 100ms");
  EXPECT_THAT(MissingRanks(rank.status()), ElementsAre(0, 2));
}

TEST(HierarchicalGroupTest, ConnectEndsWhenItIsAskedToStop) {
  HashStore store;
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  const auto rank = ConnectHierarchical(store, 0, 2, OnHost('a'), stop.get_token());
  EXPECT_EQ(rank.status().message(), "connect was aborted: its caller asked it to stop");
}

// Changes the cards by which ranks 0 and 1 of a world of three meet in memory.
class StoreOfFalseCards : public HashStore {
 public:
  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override {
    std::vector<StoreOperation> changed(operations.begin(), operations.end());
    for (StoreOperation& operation : changed)
      if (auto* set = std::get_if<StoreSet>(&operation);
          set != nullptr && set->key == "hosts/0/shm/1/arrived")
        set->value = absl::StrCat("another release-", set->value);
    return HashStore::Execute(changed);
  }
};

TEST(HierarchicalGroupTest, RanksThatFindTheyCannotShareMemoryAreHostsOfTheirOwn) {
  StoreOfFalseCards store;
  std::vector<std::jthread> threads;
  for (int r = 0; r < 5; ++r)
    threads.emplace_back([&, r] {
      const auto rank = ConnectHierarchical(store, r, 5, OnHost(r < 3 ? 'a' : 'b'));
      ASSERT_TRUE(rank.ok()) << rank.status();
      EXPECT_EQ(rank->backend, "hierarchical");
      EXPECT_THAT(rank->why_not, ::testing::HasSubstr("they are of different releases of dp"));
      std::vector<float> data = AwkwardValues(r, 100000);
      ASSERT_EQ(rank->group->AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait(),
                absl::OkStatus());
      EXPECT_TRUE(data == OrderedSum(5, 100000));
      ASSERT_EQ(rank->group->Leave()->Wait(), absl::OkStatus());
    });
}

HostCard CardOf(const std::string& kernel) {
  return {.layout = "1",
          .kernel = kernel,
          .network = "n",
          .user = "u",
          .host_name = "h",
          .socket = "",
          .token = "",
          .why_not = ""};
}

TEST(HostMeetingTest, RanksThatDifferInAnythingThatSharingNeedsAreOnDifferentHosts) {
  HostCard user = CardOf("x"), network = CardOf("x"), unable = CardOf("x");
  user.user = "another";
  network.network = "another";
  unable.why_not = "cannot read";
  EXPECT_THAT(HostsOf({CardOf("x"), CardOf("y"), CardOf("x"), user, network, unable, unable}),
              ElementsAre(0, 1, 0, 2, 3, 4, 5));
}

TEST(HostMeetingTest, AHostWithTooManyRanksCountsAsSeveral) {
  const std::vector<int> hosts = HostsOf(std::vector<HostCard>(kSharingRanksMax + 2, CardOf("x")));
  EXPECT_EQ(hosts[kSharingRanksMax - 1], 0);
  EXPECT_EQ(hosts[kSharingRanksMax], 1);
  EXPECT_EQ(hosts[kSharingRanksMax + 1], 1);
}

TEST(HostMeetingTest, RanksOfASplitHostAreAlone) {
  EXPECT_THAT(WithHostsSplit({0, 0, 1, 1, 0, 2}, {0}), ElementsAre(0, 1, 2, 2, 3, 4));
  EXPECT_THAT(WithHostsSplit({0, 0, 1}, {}), ElementsAre(0, 0, 1));
}

}  // namespace
}  // namespace dp::engine
