#include "worker/engine/collectives/gloo/striped_group.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/gloo/gloo_group.h"
#include "worker/engine/collectives/local/local_group.h"
#include "worker/engine/collectives/testing/awkward_values.h"
#include "worker/engine/collectives/testing/group_conformance.h"

namespace dp::engine {
namespace {

using ::testing::HasSubstr;

// Ranks on loopback that give these lists of interfaces.
std::vector<absl::StatusOr<std::unique_ptr<Group>>> ConnectWith(
    const std::vector<std::string>& lists, absl::Duration timeout = absl::Minutes(1)) {
  HashStore store;
  const int size = static_cast<int>(lists.size());
  std::vector<absl::StatusOr<std::unique_ptr<Group>>> groups(lists.size());
  std::vector<std::jthread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      groups[r] = ConnectGloo(store, r, size,
                              {.group = {.timeout = timeout},
                               .connect_timeout = absl::Minutes(1),
                               .address = "",
                               .interface = lists[r]});
    });
  threads.clear();
  return groups;
}

Groups OpenStriped(int size, const GroupOptions& options) {
  Groups groups;
  for (auto& group : ConnectWith(std::vector<std::string>(size, "lo,lo"), options.timeout)) {
    EXPECT_TRUE(group.ok()) << group.status();
    groups.push_back(*std::move(group));
  }
  return groups;
}

INSTANTIATE_TEST_SUITE_P(TwoInterfaces, GroupConformance,
                         ::testing::Combine(::testing::Values(Backend{.open = OpenStriped,
                                                                      .states_differences = false}),
                                            ::testing::Values(3)));

TEST(StripedGroupTest, RanksThatListMoreInterfacesThanOthersFailEverywhere) {
  for (const auto& group : ConnectWith({"lo", "lo", "lo,lo"})) {
    EXPECT_EQ(group.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(group.status().message(),
              "rank 0 lists the interfaces 'lo', rank 2 lists 'lo,lo'; give every rank as many");
  }
}

TEST(StripedGroupTest, AnInterfaceOfAListThatDoesNotExistIsNamed) {
  HashStore store;
  const auto group = ConnectGloo(store, 0, 2, {.address = "", .interface = "lo,nonesuch0"});
  EXPECT_EQ(group.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(group.status().message()),
              HasSubstr("interface 'nonesuch0' does not exist; this host has lo"));
}

// Counts the operations that a group carries, and their bytes.
class Counting : public Group {
 public:
  struct Counts {
    int operations = 0;
    size_t bytes = 0;
  };

  Counting(std::unique_ptr<Group> group, Counts* counts)
      : group_(std::move(group)), counts_(counts) {}

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  std::unique_ptr<Work> Start(Collective call) override {
    counts_->operations += 1;
    counts_->bytes += call.input.size();
    for (const auto& piece : call.sent) counts_->bytes += piece.size();
    return group_->Start(std::move(call));
  }
  std::unique_ptr<Work> Leave() override { return group_->Leave(); }
  void Abort(const absl::Status& why) override { group_->Abort(why); }

 private:
  const std::unique_ptr<Group> group_;
  Counts* const counts_;
};

// A group of one rank over three.
class StripesTest : public ::testing::Test {
 protected:
  StripesTest() {
    std::vector<std::unique_ptr<Group>> stripes;
    for (Counting::Counts& counts : counts_)
      stripes.push_back(std::make_unique<Counting>(std::move(MakeLocalGroups(1)[0]), &counts));
    group_ = MakeStriped(std::move(stripes), {});
  }

  Counting::Counts counts_[3];
  std::unique_ptr<Group> group_;
};

TEST_F(StripesTest, SmallOperationsTakeTurns) {
  std::vector<float> data(10, 1.0f);
  for (int i = 0; i < 6; ++i)
    ASSERT_TRUE(group_->AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait().ok());
  for (const Counting::Counts& counts : counts_) {
    EXPECT_EQ(counts.operations, 2);
    EXPECT_EQ(counts.bytes, size_t{80});
  }
}

TEST_F(StripesTest, LargeOperationsAreSplitEvenly) {
  std::vector<uint8_t> data(size_t{3} << 20, 7), gathered(data.size());
  ASSERT_TRUE(group_->Broadcast(absl::MakeSpan(data), 0)->Wait().ok());
  for (const Counting::Counts& counts : counts_) EXPECT_EQ(counts.bytes, size_t{1} << 20);
  ASSERT_TRUE(group_->Exchange({data}, {absl::MakeSpan(gathered)})->Wait().ok());
  for (const Counting::Counts& counts : counts_) EXPECT_EQ(counts.bytes, size_t{2} << 20);
  EXPECT_TRUE(gathered == data);
}

TEST(StripedGroupTest, SumsThatAreSplitHaveTheBitsOfTheTree) {
  Groups groups = OpenStriped(3, {});
  for (const size_t count : {size_t{131071}, size_t{131072}, size_t{1000003}}) {
    const std::vector<float> expected = OrderedSum(3, count);
    OnEveryRank(groups, [&](Group& group) {
      std::vector<float> data = AwkwardValues(group.rank(), count);
      ASSERT_EQ(group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait(), absl::OkStatus());
      ASSERT_TRUE(SameBits(data, expected)) << count;
    });
  }
}

}  // namespace
}  // namespace dp::engine
