#include <filesystem>
#include <string>
#include <vector>

#include "dp/ddp.h"
#include "dp/distributed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/listed_module.h"
#include "worker/library/testing/rank_processes.h"
#include "worker/library/testing/thrown.h"

// Groups of some ranks of the default group, whose ranks are processes.

namespace dp::distributed {
namespace {

using engine::World;
using library::At;
using library::Line;
using library::Rank;
using library::RankProcessesTest;
using library::Say;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string InGroupOfZeroAndTwo(int rank) {
  const std::vector<int> members = {2, 0};
  const ProcessGroup group = new_group(members, "gloo");
  if (!group) return std::to_string(get_rank(group));
  std::vector<float> sum = {float(rank)}, from_zero = {float(rank) + 5};
  all_reduce(sum, ReduceOp::kSum, group);
  broadcast(from_zero, 0, group);
  const DistError error = library::ErrorOf([&] { broadcast(sum, 1, group); });
  return std::to_string(get_rank(group)) + " of " + std::to_string(group.size()) + " " +
         group.backend() + " " + std::to_string(int(sum[0])) + " " +
         std::to_string(int(from_zero[0])) + " " + error.what();
}

TEST_F(RankProcessesTest, AGroupOfSomeRanksHasItsOwnNumbers) {
  if (!is_gloo_available()) GTEST_SKIP() << "no Gloo";
  World world = Start(3, [&](int rank, const Line&) {
    init_process_group(At(Url(), rank, 3));
    const std::string said = InGroupOfZeroAndTwo(rank);
    destroy_process_group();
    return said;
  });
  EXPECT_THAT(world[0]->Hear(), HasSubstr("1 of 2 gloo 2 5 group 'group_1', rank 1: rank 1 is not "
                                          "in the group; give one of 2, 0"));
  EXPECT_EQ(world[1]->Hear(), "-1");
  EXPECT_THAT(world[2]->Hear(), HasSubstr("0 of 2 gloo 2 5 "));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(RankProcessesTest, AGroupTakesTheDefaultBackendOrOneInAnyCaseAndIsLeftAlone) {
  if (!is_gloo_available()) GTEST_SKIP() << "no Gloo";
  World world = Start(2, [&](int rank, const Line&) {
    InitOptions options = At(Url(), rank, 2);
    options.backend = "gloo";
    init_process_group(options);
    const std::vector<int> both = {0, 1};
    const ProcessGroup inherits = new_group(both), named = new_group(both, "ShM");
    const std::string backends = get_backend(inherits) + " " + get_backend(named) + " ";
    destroy_process_group(inherits);
    barrier(named);
    barrier();
    const DistError left = library::ErrorOf([&] { barrier(inherits); });
    destroy_process_group();
    return backends + left.what();
  });
  EXPECT_EQ(world[0]->Hear(),
            "gloo shm group 'group_1', rank 0 has left it by destroy_process_group; join again");
  EXPECT_THAT(world[1]->Hear(), HasSubstr("gloo shm group 'group_1', rank 1 has left it"));
}

TEST_F(RankProcessesTest, AGroupHasATimeLimitOfItsOwn) {
  World world = Start(2, [&](int rank, const Line& line) {
    init_process_group(At(Url(), rank, 2));
    const std::vector<int> both = {0, 1};
    const ProcessGroup limited = new_group(both, {}, std::chrono::seconds(3));
    if (rank == 1) line.AwaitCommand();
    if (rank == 0) line.Say(Say(library::ErrorOf([&] { barrier(limited); })));
    barrier();  // the default group goes on
    return std::string("passed");
  });
  EXPECT_THAT(world[0]->Hear(), HasSubstr("group 'group_1', rank 0: barrier 1: rank 1 did not "
                                          "arrive within 3s"));
  world[1]->Command();
  for (const auto& rank : world) EXPECT_EQ(rank->Hear(), "passed");
}

// The first value of the replica at first, and its gradient after a backward.
std::string TrainIn(const ProcessGroup& group, int rank) {
  library::ListedModule module({{"w", {float(rank + 1)}}});
  DistributedDataParallel ddp(module, {.process_group = group});
  ddp.begin_forward();
  module.Add(0, float(rank + 1));
  ddp.gradient_ready(0);
  ddp.finish_backward();
  return std::to_string(int(module.values[0].values[0])) + " " +
         std::to_string(int(module.gradients[0][0]));
}

TEST_F(RankProcessesTest, ReplicasAreThoseOfTheGroupThatIsGiven) {
  World world = Start(3, [&](int rank, const Line&) {
    init_process_group(At(Url(), rank, 3));
    const std::vector<int> members = {2, 0};
    const ProcessGroup group = new_group(members);
    const std::string said =
        group ? TrainIn(group, rank) : Say(library::ErrorOf([&] { TrainIn(group, rank); }));
    destroy_process_group();
    return said;
  });
  EXPECT_EQ(world[0]->Hear(), "3 2");  // rank 2 is the first of the group
  EXPECT_EQ(world[2]->Hear(), "3 2");
  EXPECT_THAT(world[1]->Hear(), HasSubstr("process_group is an empty handle: this rank is no"));
}

TEST_F(RankProcessesTest, AGroupOfWrongRanksIsRejected) {
  const auto rank = Rank([&](const Line&) {
    init_process_group(At(Url(), 0, 1));
    const std::vector<int> none, twice = {0, 0}, outside = {1};
    return Say(library::ErrorOf([&] { new_group(none); })) + " | " +
           Say(library::ErrorOf([&] { new_group(twice); })) + " | " +
           Say(library::ErrorOf([&] { new_group(outside); }));
  });
  EXPECT_EQ(
      rank->Hear(),
      "0 group 'default', rank 0: new_group of no rank; give one rank at least, and each once "
      "| 0 group 'default', rank 0: new_group of ranks 0, 0; give one rank at least, and "
      "each once | 0 group 'default', rank 0: rank 1 is not in the group; give 0 to 0");
}

// The error of every rank, whose list of ranks or backend differs from that of another rank.
class DifferingGroupsTest : public RankProcessesTest {
 protected:
  struct Call {
    std::vector<int> ranks;
    std::string backend = {};
  };
  World StartWith(const std::vector<Call>& calls) {
    return Start(int(calls.size()), [=, this](int rank, const Line&) {
      init_process_group(At(Url(), rank, int(calls.size())));
      const Call& call = calls[rank];
      return Say(library::ErrorOf([&] { new_group(call.ranks, call.backend); }));
    });
  }
  // Every rank states the difference that it or another has found.
  static void ExpectMismatch(const World& world, const std::vector<std::string>& texts) {
    for (const auto& rank : world) {
      const std::string said = rank->Hear();
      EXPECT_THAT(said, StartsWith("5 group 'default', rank "));
      EXPECT_THAT(said, HasSubstr(": new_group 1: rank "));
      for (const std::string& text : texts) EXPECT_THAT(said, HasSubstr(text));
      EXPECT_THAT(said, EndsWith("; call the same operation with the same arguments on every "
                                 "rank"));
    }
  }
};

TEST_F(DifferingGroupsTest, ListsInAnotherOrderAreAMismatchOnEveryRank) {
  ExpectMismatch(StartWith({{{0, 1}}, {{1, 0}}}),
                 {"rank 0 gives ranks 0, 1 and backend auto", "rank 1 gives ranks 1, 0 and"});
}

TEST_F(DifferingGroupsTest, ListsOfOtherRanksAreAMismatchOnEveryRank) {
  ExpectMismatch(StartWith({{{0, 1, 2}}, {{0, 1, 2}}, {{1, 2}}}),
                 {" gives ranks 0, 1, 2 and backend auto", "rank 2 gives ranks 1, 2 and"});
}

TEST_F(DifferingGroupsTest, OtherBackendsAreAMismatchOnEveryRank) {
  if (!is_gloo_available()) GTEST_SKIP() << "no Gloo";
  ExpectMismatch(StartWith({{{0, 1}, "shm"}, {{0, 1}, "Gloo"}}),
                 {"rank 0 gives ranks 0, 1 and backend shm",
                  "rank 1 gives ranks 0, 1 and backend "
                  "gloo"});
}

TEST_F(RankProcessesTest, ARankThatLeavesOutANewGroupGetsAMismatchAtItsNext) {
  World world = Start(3, [&](int rank, const Line&) {
    init_process_group(At(Url(), rank, 3));
    const std::vector<int> all = {0, 1, 2}, pair = {0, 2};
    if (rank != 2) return Say(library::ErrorOf([&] { new_group(all); }));
    return Say(library::ErrorOf([&] { new_group(pair); }));
  });
  for (const auto& rank : world)
    EXPECT_THAT(rank->Hear(), HasSubstr("rank 2 gives ranks 0, 2 and"));
}

TEST_F(RankProcessesTest, TimeLimitsArePositive) {
  const auto rank = Rank([&](const Line&) {
    init_process_group(At(Url(), 0, 1));
    const std::vector<int> self = {0};
    const std::chrono::milliseconds none(0), negative(-5);
    return Say(library::ErrorOf([&] { new_group(self, {}, none); })) + " | " +
           Say(library::ErrorOf([&] { monitored_barrier(default_group(), negative); }));
  });
  EXPECT_EQ(rank->Hear(),
            "0 group 'default', rank 0: new_group: timeout is 0 ms; give more than 0 | 0 group "
            "'default', rank 0: monitored_barrier: timeout is -5 ms; give more than 0");
}

}  // namespace
}  // namespace dp::distributed
