#include "worker/engine/collectives/mpi/mpi_group.h"

#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/testing/awkward_values.h"
#include "worker/engine/collectives/testing/group_conformance.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;

// The ranks are threads of one process, which is alone in MPI's world and sends to itself.
class OneProcess : public ::testing::Environment {
  void SetUp() override {
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
};
[[maybe_unused]] const auto* const kOneProcess =
    ::testing::AddGlobalTestEnvironment(new OneProcess);

Groups OpenByMpi(int size, const GroupOptions& options) {
  HashStore store;
  Groups groups(size);
  std::vector<std::jthread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      auto group = ConnectMpi(store, r, size, {.group = options});
      ASSERT_TRUE(group.ok()) << group.status();
      groups[r] = *std::move(group);
    });
  threads.clear();
  return groups;
}

INSTANTIATE_TEST_SUITE_P(ByMpi, GroupConformance,
                         ::testing::Combine(::testing::Values(Backend{.open = OpenByMpi,
                                                                      .has_limits_of_calls = false,
                                                                      .all_meet = false,
                                                                      .senders_wait = false}),
                                            ::testing::Range(1, 5)));

INSTANTIATE_TEST_SUITE_P(ByMpi, MessageConformance,
                         ::testing::Combine(::testing::Values(Backend{.open = OpenByMpi}),
                                            ::testing::Range(2, 4)));

// Around the sizes that heads carry, and those that MPI itself treats in different ways.
TEST(MpiGroupTest, SumsOfEverySizeHaveTheBitsOfTheTree) {
  Groups groups = OpenByMpi(3, {});
  for (const size_t count : {1, 124, 125, 126, 374, 375, 376, 5000, 300000, 3000001}) {
    const std::vector<float> expected = OrderedSum(3, count);
    OnEveryRank(groups, [&](Group& group) {
      std::vector<float> data = AwkwardValues(group.rank(), count);
      ASSERT_EQ(group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait(), absl::OkStatus());
      ASSERT_TRUE(SameBits(data, expected)) << count << " rank " << group.rank();
    });
  }
}

TEST(MpiGroupTest, ConnectNamesTheRanksThatDidNotArrive) {
  HashStore store;
  const auto group = ConnectMpi(store, 1, 3, {.connect_timeout = absl::Milliseconds(100)});
  EXPECT_EQ(group.status().message(), "connect: ranks 0, 2 did not arrive within 100ms");
  EXPECT_THAT(MissingRanks(group.status()), ElementsAre(0, 2));
}

// Around the sizes that heads carry.
TEST(MpiGroupTest, PiecesOfUnexpectedSizeAreNamedOnBothRanks) {
  std::vector<std::jthread> cases;  // side by side, because ranks wait before they look
  for (const auto& [sent, taken] : {std::pair{11, 10},
                                    {10, 11},
                                    {100001, 100000},
                                    {100000, 100001},
                                    {10, 100000},
                                    {100000, 10}})
    cases.emplace_back([sent, taken] {
      Groups groups = OpenByMpi(2, {});
      const std::string difference =
          absl::StrCat(": rank 1 sends ", sent, " bytes to rank 0, which expects ", taken);
      OnEveryRank(groups, [&](Group& group) {
        std::vector<uint8_t> bytes(static_cast<size_t>(group.rank() == 0 ? taken : sent));
        const auto room = absl::MakeSpan(bytes);
        const auto call = group.rank() == 0 ? group.Exchange({{}, {}}, {{}, room})
                                            : group.Exchange({room, {}}, {{}, {}});
        absl::Status status = call->Wait();
        // A short piece goes with its head.
        const char* const name = status.ok() ? "barrier 2" : "exchange 1";
        if (status.ok()) status = group.Barrier()->Wait();
        EXPECT_EQ(status, absl::InvalidArgumentError(name + difference));
      });
    });
}

TEST(MpiGroupTest, TheTextOfRank0IsThatOfAProcessAlone) {
  EXPECT_EQ(*TextOfMpiRank0("127.0.0.1:1234", absl::Seconds(10)), "127.0.0.1:1234");
}

TEST(MpiGroupTest, AThousandGroupsLeaveNothingBehind) {
  for (int i = 0; i < 1000; ++i) {
    Groups groups = OpenByMpi(2, {});
    OnEveryRank(groups, [](Group& group) {
      EXPECT_EQ(group.Barrier()->Wait(), absl::OkStatus());
      EXPECT_EQ(group.Leave()->Wait(), absl::OkStatus());
    });
  }
}

}  // namespace
}  // namespace dp::engine
