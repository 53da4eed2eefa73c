#include <filesystem>
#include <fstream>
#include <latch>
#include <optional>

#include "absl/strings/match.h"
#include "dp/distributed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/group.h"
#include "worker/library/open_store.h"
#include "worker/library/testing/rank_threads.h"
#include "worker/library/testing/thrown.h"

// Process groups whose ranks are threads, over every backend.

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::OnRanks;
using library::OnThread;
using library::Thread;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EveryBackendTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!is_backend_available(backend_)) GTEST_SKIP() << "no Gloo";
  }

  const std::string backend_ = GetParam();
};

INSTANTIATE_TEST_SUITE_P(, EveryBackendTest,
                         ::testing::Values("gloo", "shm", "auto", "hierarchical"),
                         [](const auto& info) { return info.param; });

TEST_P(EveryBackendTest, ARankKnowsItsPlace) {
  OnRanks(3, backend_, [&](const ProcessGroup& group) {
    EXPECT_EQ(get_rank(group), group.rank());
    EXPECT_EQ(get_world_size(group), 3);
    EXPECT_EQ(get_backend(group), backend_ == "auto" ? "shm" : backend_);
    EXPECT_EQ(group.name(), "default");
  });
}

TEST_P(EveryBackendTest, JoiningBlocksUntilTheLastRankComes) {
  const HashStore store;
  std::atomic<int> joined = 0;
  const auto join = [&](int rank) {
    const ProcessGroup group(Thread(store, rank, 3, backend_));
    ++joined;
    destroy_process_group(group);
  };
  std::vector<std::jthread> threads;
  for (const int rank : {0, 1}) threads.emplace_back([&, rank] { OnThread([&] { join(rank); }); });
  for (const char* begun : {"dp/default/runs/0", "dp/default/runs/1"}) store.get(begun);
  OnRanks(2, backend_, [](const ProcessGroup& other) { barrier(other); });  // joins meanwhile
  EXPECT_EQ(joined, 0);
  OnThread([&] { join(2); });
}

// Holds rank 1 back once it is connected.
class StoreThatHoldsRank1 : public dp::HashStore {
 public:
  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override {
    for (const StoreOperation& operation : operations)
      if (const auto* set = std::get_if<StoreSet>(&operation);
          set != nullptr && absl::EndsWith(set->key, "joined/came/1"))
        released_.wait();
    return dp::HashStore::Execute(operations);
  }
  void Release() { released_.count_down(); }

 private:
  std::latch released_{1};
};

TEST_P(EveryBackendTest, JoiningBlocksUntilTheLastRankIsConnected) {
  auto held = std::make_unique<StoreThatHoldsRank1>();
  StoreThatHoldsRank1& holds = *held;
  Store store(std::make_shared<library::OpenStore>(
      library::OpenStore{nullptr, std::move(held), "127.0.0.1"}));
  store.set_timeout(std::chrono::minutes(1));
  std::atomic<bool> joined = false;
  const auto join = [&](int rank) {
    const ProcessGroup group(Thread(store, rank, 2, backend_));
    joined = true;
    destroy_process_group(group);
  };
  std::jthread zero([&] { OnThread([&] { join(0); }); });
  std::jthread one([&] { OnThread([&] { join(1); }); });
  store.get("dp/default/run_1/joined/came/0");  // rank 0 is connected
  EXPECT_FALSE(joined);
  holds.Release();
}

TEST_P(EveryBackendTest, AllReduceKnowsSumAverageMinimumAndMaximum) {
  OnRanks(3, backend_, [](const ProcessGroup& group) {
    const auto reduced = [&](ReduceOp op) {
      std::vector<float> data = {float(group.rank()), 5};
      all_reduce(data, op, group);
      return data;
    };
    EXPECT_THAT(reduced(ReduceOp::kSum), ElementsAre(3, 15));
    EXPECT_THAT(reduced(ReduceOp::kAvg), ElementsAre(1, 5));
    EXPECT_THAT(reduced(ReduceOp::kMin), ElementsAre(0, 5));
    EXPECT_THAT(reduced(ReduceOp::kMax), ElementsAre(2, 5));
  });
}

TEST_P(EveryBackendTest, AllReduceTakesEveryKindOfArray) {
  OnRanks(2, backend_, [](const ProcessGroup& group) {
    float plain[2] = {1, 2};
    std::array<float, 1> array = {3};
    std::vector<float> empty;
    all_reduce(plain, ReduceOp::kSum, group);
    all_reduce(array, ReduceOp::kSum, group);
    all_reduce(std::span<float>(plain).last(1), ReduceOp::kSum, group);
    all_reduce(empty, ReduceOp::kSum, group);
    EXPECT_THAT(plain, ElementsAre(2, 8));
    EXPECT_EQ(array[0], 6);
  });
}

TEST_P(EveryBackendTest, BroadcastCarriesElementsOfEveryType) {
  OnRanks(3, backend_, [](const ProcessGroup& group) {
    const auto check = [&]<typename T>(T from_one) {
      std::vector<T> data(2, group.rank() == 1 ? from_one : T(0));
      broadcast(data, 1, group);
      EXPECT_THAT(data, ElementsAre(from_one, from_one));
    };
    check(1.5f);
    check(1e300);
    check(int32_t{-7});
    check(int64_t{1} << 40);
    check(uint8_t{200});
  });
}

TEST_P(EveryBackendTest, AllGatherPutsTheRanksInOrder) {
  OnRanks(3, backend_, [](const ProcessGroup& group) {
    const std::vector<int32_t> input = {group.rank(), -group.rank()};
    std::vector<int32_t> output(6);
    all_gather(output, input, group);
    EXPECT_THAT(output, ElementsAre(0, 0, 1, -1, 2, -2));
  });
}

TEST_P(EveryBackendTest, AnAsynchronousOperationEndsInTheBackground) {
  OnRanks(2, backend_, [](const ProcessGroup& group) {
    std::vector<float> first(1000, 1), second(1000, 2);
    Work one = all_reduce_async(first, ReduceOp::kSum, group);
    Work two = all_reduce_async(second, ReduceOp::kSum, group);
    two.wait();
    EXPECT_TRUE(one.is_completed());
    one.wait();
    one.wait();
    EXPECT_EQ(first[999], 2);
    EXPECT_EQ(second[999], 4);
  });
}

TEST_P(EveryBackendTest, AnOperationThatNobodyWaitsForKeepsItsMemoryUntilItsEnd) {
  OnRanks(2, backend_, [](const ProcessGroup& group) {
    std::vector<float> data(100000, 1);
    { const Work dropped = all_reduce_async(data, ReduceOp::kSum, group); }
    EXPECT_EQ(data[99999], 2);  // the destructor has waited
  });
}

TEST_P(EveryBackendTest, ABarrierHoldsUntilTheLastRank) {
  std::atomic<int> arrived = 0;
  OnRanks(3, backend_, [&](const ProcessGroup& group) {
    ++arrived;
    barrier(group);
    EXPECT_EQ(arrived, 3);
  });
}

TEST_P(EveryBackendTest, ATimeoutNamesTheRankThatDidNotArrive) {
  if (backend_ == "auto" || backend_ == "hierarchical") return;  // shm here, and waits as long
  std::latch done(2);
  OnRanks(
      3, backend_,
      [&](const ProcessGroup& group) {
        if (group.rank() == 1) return done.wait();
        std::vector<float> data(10);
        const DistError error = ErrorOf([&] { all_reduce(data, ReduceOp::kSum, group); });
        const DistError again = ErrorOf([&] { all_reduce(data, ReduceOp::kSum, group); });
        done.count_down();
        EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
        EXPECT_EQ(again.kind(), ErrorKind::kTimeout);
        EXPECT_THAT(again.missing_ranks(), ElementsAre(1));
        EXPECT_THAT(error.missing_ranks(), ElementsAre(1));
        EXPECT_THAT(error.what(), HasSubstr("group 'default', rank "));
        EXPECT_THAT(error.what(), HasSubstr("rank 1 did not arrive within 3s; check that every"));
      },
      milliseconds(3000));
}

TEST_P(EveryBackendTest, AMonitoredBarrierNamesWhoIsMissingAndLeavesTheGroupUsable) {
  std::latch failed(2);
  OnRanks(3, backend_, [&](const ProcessGroup& group) {
    monitored_barrier(group);
    if (group.rank() == 2) {
      failed.wait();
      monitored_barrier(group);  // the others have come, and have given up
    } else {
      const DistError error = ErrorOf([&] { monitored_barrier(group, milliseconds(50)); });
      failed.count_down();
      EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
      EXPECT_THAT(error.missing_ranks(), ElementsAre(2));
      EXPECT_THAT(error.what(), HasSubstr("monitored_barrier: rank 2 did not arrive within 50ms"));
    }
    for (int i = 0; i < 3; ++i) monitored_barrier(group);
    std::vector<float> data = {1};
    all_reduce(data, ReduceOp::kSum, group);
    EXPECT_EQ(data[0], 3);
  });
}

TEST_P(EveryBackendTest, ARankThatEndsWithoutLeavingIsNamed) {
  const HashStore store;
  std::optional<ProcessGroup> zero, one;
  {
    std::jthread other([&] { one.emplace(Thread(store, 1, 2, backend_)); });
    zero.emplace(Thread(store, 0, 2, backend_));
  }
  one.reset();
  std::vector<float> data(10);
  const DistError error = ErrorOf([&] { all_reduce(data, ReduceOp::kSum, *zero); });
  EXPECT_EQ(error.kind(), ErrorKind::kPeerGone);
  EXPECT_THAT(error.what(), HasSubstr("rank 1 went away; the output of that rank says why"));
  EXPECT_EQ(ErrorOf([&] { barrier(*zero); }).kind(), ErrorKind::kPeerGone);
}

TEST_P(EveryBackendTest, AbortEndsOperationsWithItsReason) {
  std::latch done(1);
  OnRanks(2, backend_, [&](const ProcessGroup& group) {
    if (group.rank() == 1) return done.wait();
    std::vector<float> data(10);
    Work work = all_reduce_async(data, ReduceOp::kSum, group);
    group.abort("the loss is infinite");
    const DistError error = ErrorOf([&] { work.wait(); });
    EXPECT_EQ(error.kind(), ErrorKind::kAborted);
    EXPECT_THAT(error.what(), HasSubstr("was aborted: the loss is infinite"));
    EXPECT_EQ(ErrorOf([&] { monitored_barrier(group); }).kind(), ErrorKind::kAborted);
    done.count_down();
  });
}

TEST_P(EveryBackendTest, AGroupOfOneNeedsNoPeers) {
  const ProcessGroup group(Thread(HashStore(), 0, 1, backend_));
  std::vector<float> data = {7};
  all_reduce(data, ReduceOp::kAvg, group);
  broadcast(data, 0, group);
  barrier(group);
  monitored_barrier(group);
  EXPECT_EQ(data[0], 7);
  EXPECT_EQ(group.backend(), backend_ == "auto" ? "shm" : backend_);
}

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(open), end(open)));
}

// Mappings of memory files, which shared memory is.
size_t SharedMappings() {
  std::ifstream maps("/proc/self/maps");
  size_t shared = 0;
  for (std::string line; std::getline(maps, line);)
    shared += line.find("/memfd:") != std::string::npos ? 1 : 0;
  return shared;
}

TEST_P(EveryBackendTest, ManyGroupsLeaveNothingOpen) {
  if (backend_ == "auto" || backend_ == "hierarchical") return;  // shm here
  const auto make_groups = [&](int groups) {
    for (int i = 0; i < groups; ++i)
      OnRanks(2, backend_, [](const ProcessGroup& group) {
        std::vector<float> data(100, 1);
        all_reduce(data, ReduceOp::kSum, group);
      });
  };
  make_groups(1);
  const size_t descriptors = OpenDescriptors(), mappings = SharedMappings();
  make_groups(backend_ == "shm" ? 1000 : 100);  // connecting by Gloo takes ten times as long
  EXPECT_EQ(OpenDescriptors(), descriptors);
  EXPECT_EQ(SharedMappings(), mappings);
}

// The reason why each of the ranks, which give these backends, cannot join.
std::vector<std::string> WhyNotJoined(const std::vector<std::string>& backends) {
  const HashStore store;
  const int size = static_cast<int>(backends.size());
  std::vector<std::string> reasons(backends.size());
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      const DistError error =
          ErrorOf([&] { const ProcessGroup group(Thread(store, rank, size, backends[rank])); });
      EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
      reasons[rank] = error.what();
    });
  threads.clear();
  return reasons;
}

TEST(ProcessGroupErrorTest, RanksThatGiveDifferentBackendsLearnTheDifference) {
  for (const std::string& reason : WhyNotJoined({"shm", "shm", "gloo"})) {
    EXPECT_THAT(reason, HasSubstr("connect: backends differ: rank "));
    EXPECT_THAT(reason, HasSubstr(" gives shm"));
    EXPECT_THAT(reason, HasSubstr("rank 2 gives gloo"));
    EXPECT_THAT(reason, HasSubstr("give every rank the same backend"));
  }
}

TEST(SharedMemoryGroupTest, RanksThatCallDifferentOperationsLearnTheDifference) {
  OnRanks(2, "shm", [&](const ProcessGroup& group) {
    std::vector<float> data(group.rank() == 0 ? 10 : 20);
    const DistError error = ErrorOf([&] { all_reduce(data, ReduceOp::kSum, group); });
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
    EXPECT_THAT(error.what(), HasSubstr("rank 0 calls all_reduce of 10 float32"));
    EXPECT_THAT(error.what(), HasSubstr("rank 1 calls all_reduce of 20 float32"));
    EXPECT_THAT(error.what(), HasSubstr("call the same operation with the same arguments"));
  });
}

TEST(InitOptionsTest, EveryOptionHasItsDefault) {
  const InitOptions options;
  EXPECT_EQ(options.backend, "auto");
  EXPECT_EQ(options.init_method, "");
  EXPECT_FALSE(options.store);
  EXPECT_FALSE(options.world_size);
  EXPECT_FALSE(options.rank);
  EXPECT_EQ(options.timeout, std::chrono::minutes(30));
  EXPECT_EQ(options.group_name, "default");
  EXPECT_EQ(engine::GroupOptions().timeout, absl::Minutes(30));  // of every backend, NCCL's too
}

TEST(ProcessGroupTest, AStoreServesOneGroupAfterAnotherAndGroupsOfOtherNames) {
  const HashStore store;
  const auto join_and_leave = [&](int rank) {
    for (int i = 0; i < 2; ++i) {
      InitOptions options = Thread(store, rank, 2);
      const ProcessGroup group(options);
      options.group_name = "second";
      const ProcessGroup beside(options);
      barrier(beside);
      barrier(group);
      destroy_process_group(beside);
      destroy_process_group(group);
    }
  };
  std::jthread other([&] { OnThread([&] { join_and_leave(1); }); });
  OnThread([&] { join_and_leave(0); });
}

TEST(ProcessGroupTest, AGroupThatWasLeftRejectsOperations) {
  const ProcessGroup group(Thread(HashStore(), 0, 1));
  destroy_process_group(group);
  destroy_process_group(group);
  const DistError error = ErrorOf([&] { barrier(group); });
  EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
  EXPECT_THAT(error.what(), HasSubstr("has left it by destroy_process_group"));
  EXPECT_EQ(ErrorOf([&] { monitored_barrier(group); }).kind(), ErrorKind::kWrongState);
  group.abort("too late");
}

TEST(ProcessGroupTest, AnEmptyHandleIsNoMember) {
  const ProcessGroup none;
  EXPECT_FALSE(none);
  EXPECT_EQ(get_rank(none), -1);
  EXPECT_EQ(get_world_size(none), -1);
  EXPECT_EQ(ErrorOf([&] { barrier(none); }).kind(), ErrorKind::kWrongState);
  EXPECT_THAT(ErrorOf([&] { barrier(none); }).what(), HasSubstr("this rank is no member"));
}

}  // namespace
}  // namespace dp::distributed
