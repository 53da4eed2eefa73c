#include "worker/engine/collectives/testing/group_conformance.h"

#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/testing/awkward_values.h"

namespace dp::engine {

TEST_P(GroupConformance, RanksCountFromZeroToSize) {
  Groups groups = Open();
  ASSERT_EQ(static_cast<int>(groups.size()), size());
  for (int r = 0; r < size(); ++r) {
    EXPECT_EQ(groups[r]->rank(), r);
    EXPECT_EQ(groups[r]->size(), size());
  }
}

TEST_P(GroupConformance, SumsAddTheRanksInOrderToTheLastBit) {
  Groups groups = Open();
  for (size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{17}, size_t{1000}, size_t{70001},
                       size_t{1} << 20}) {
    const std::vector<float> expected = OrderedSum(size(), count);
    OnEveryRank(groups, [&](Group& group) {
      std::vector<float> data = AwkwardValues(group.rank(), count);
      ASSERT_EQ(group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait(), absl::OkStatus());
      ASSERT_TRUE(SameBits(data, expected)) << "count " << count << " rank " << group.rank();
    });
  }
}

TEST_P(GroupConformance, MinAndMaxAreThoseOfAllRanks) {
  Groups groups = Open();
  OnEveryRank(groups, [&](Group& group) {
    const float mine = static_cast<float>(group.rank());
    std::vector<float> low{mine, -mine}, high = low;
    ASSERT_TRUE(group.AllReduce(absl::MakeSpan(low), ReduceOp::kMin)->Wait().ok());
    ASSERT_TRUE(group.AllReduce(absl::MakeSpan(high), ReduceOp::kMax)->Wait().ok());
    const float last = static_cast<float>(size() - 1);
    EXPECT_THAT(low, ::testing::ElementsAre(0.0f, -last));
    EXPECT_THAT(high, ::testing::ElementsAre(last, 0.0f));
  });
}

TEST_P(GroupConformance, TheMeanIsTheOrderedSumDividedByTheRanks) {
  Groups groups = Open();
  for (size_t count : {size_t{3}, size_t{70001}}) {
    std::vector<float> expected = OrderedSum(size(), count);
    for (float& value : expected) value *= 1.0f / static_cast<float>(size());
    OnEveryRank(groups, [&](Group& group) {
      std::vector<float> data = AwkwardValues(group.rank(), count);
      ASSERT_EQ(group.AllReduce(absl::MakeSpan(data), ReduceOp::kMean)->Wait(), absl::OkStatus());
      ASSERT_EQ(data, expected) << "count " << count << " rank " << group.rank();
    });
  }
}

TEST_P(GroupConformance, WhatIsOrderedOnTheStreamIsThereAfterWait) {
  Groups groups = Open();
  OnEveryRank(groups, [&](Group& group) {
    std::vector<float> data(10, 1.0f);
    auto work = group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum);
    ASSERT_EQ(work->WaitOnStream(), absl::OkStatus());
    ASSERT_EQ(work->Wait(), absl::OkStatus());
    EXPECT_EQ(data, std::vector<float>(10, static_cast<float>(size())));
  });
}

TEST_P(GroupConformance, BroadcastGivesEveryRankTheRootsBytes) {
  Groups groups = Open();
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{5000}, size_t{3} << 20})
    OnEveryRank(groups, [&](Group& group) {
      for (int root = 0; root < size(); ++root) {
        std::vector<uint8_t> data(bytes, static_cast<uint8_t>(group.rank() + 1));
        ASSERT_TRUE(group.Broadcast(absl::MakeSpan(data), root)->Wait().ok());
        ASSERT_EQ(data, std::vector<uint8_t>(bytes, static_cast<uint8_t>(root + 1)));
      }
    });
}

TEST_P(GroupConformance, AllGatherPutsEachRanksBytesAtItsPlace) {
  Groups groups = Open();
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, size_t{2} << 20})
    OnEveryRank(groups, [&](Group& group) {
      const std::vector<uint8_t> data(bytes, static_cast<uint8_t>(group.rank() + 1));
      std::vector<uint8_t> gathered(bytes * size()), expected;
      ASSERT_TRUE(
          group.AllGather(absl::MakeConstSpan(data), absl::MakeSpan(gathered))->Wait().ok());
      for (int r = 0; r < size(); ++r)
        expected.insert(expected.end(), bytes, static_cast<uint8_t>(r + 1));
      ASSERT_EQ(gathered, expected);
    });
}

TEST_P(GroupConformance, ManyOperationsInFlightRunInOrder) {
  constexpr int kOperations = 50;
  Groups groups = Open();
  OnEveryRank(groups, [&](Group& group) {
    std::vector<float> data(1000, 1.0f);  // the same memory: each operation sees the one before
    std::vector<std::unique_ptr<Work>> works;
    for (int i = 0; i < kOperations; ++i)
      works.push_back(group.AllReduce(absl::MakeSpan(data), ReduceOp::kMax));
    std::vector<float> other(3, static_cast<float>(group.rank()));
    works.push_back(group.AllReduce(absl::MakeSpan(other), ReduceOp::kSum));
    for (auto& work : works) ASSERT_TRUE(work->Wait().ok());
    EXPECT_TRUE(works.front()->done());
    EXPECT_EQ(other[0], static_cast<float>(size() * (size() - 1) / 2));
  });
}

TEST_P(GroupConformance, AnOperationSeesWhatTheOneBeforeItLeft) {
  Groups groups = Open();
  OnEveryRank(groups, [&](Group& group) {
    std::vector<uint8_t> data(100, static_cast<uint8_t>(group.rank() + 1));
    std::vector<uint8_t> gathered(100 * size());
    auto broadcast = group.Broadcast(absl::MakeSpan(data), 0);
    auto gather = group.AllGather(absl::MakeConstSpan(data), absl::MakeSpan(gathered));
    ASSERT_TRUE(broadcast->Wait().ok());
    ASSERT_TRUE(gather->Wait().ok());
    EXPECT_EQ(gathered, std::vector<uint8_t>(100 * size(), 1));
  });
}

TEST_P(GroupConformance, AnOperationAnsweredLateNamesTheRanksThatDidNotArrive) {
  if (alone()) GTEST_SKIP() << "one rank waits for nobody";
  Groups groups = Open(absl::Milliseconds(100));
  std::vector<float> data(10);
  auto work = groups[0]->AllReduce(absl::MakeSpan(data), ReduceOp::kSum);
  const absl::Status status = work->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(work->Wait(), status);
  if (!names_ranks()) return;
  std::vector<int> others(size() - 1);
  std::iota(others.begin(), others.end(), 1);
  EXPECT_EQ(status.message(),
            absl::StrCat("all_reduce 1: ", others.size() == 1 ? "rank " : "ranks ",
                         absl::StrJoin(others, ", "), " did not arrive within 100ms"));
  EXPECT_EQ(MissingRanks(status), others);
}

TEST_P(GroupConformance, AbortFromAnotherThreadEndsBlockedAndQueuedOperations) {
  if (alone()) GTEST_SKIP() << "one rank never blocks";
  Groups groups = Open();
  std::vector<float> a(10), b(10);
  auto blocked = groups[0]->AllReduce(absl::MakeSpan(a), ReduceOp::kSum);
  auto queued = groups[0]->AllReduce(absl::MakeSpan(b), ReduceOp::kSum);
  std::jthread aborter([&] {
    groups[0]->Abort(absl::UnavailableError("generation 3 is over"));
    groups[0]->Abort(absl::UnavailableError("a later reason"));
  });
  for (Work* work : {blocked.get(), queued.get()}) {
    const absl::Status status = work->Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("generation 3 is over"));
  }
}

TEST_P(GroupConformance, AnAbortedGroupRefusesEverythingAfterwards) {
  Groups groups = Open();
  groups[0]->Abort(absl::UnavailableError("no more"));
  std::vector<uint8_t> data(4);
  const absl::Status status = groups[0]->Broadcast(absl::MakeSpan(data), 0)->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
}

TEST_P(GroupConformance, APeerThatGoesAwayIsNamed) {
  if (alone()) GTEST_SKIP() << "one rank has no peer";
  Groups groups = Open();
  std::vector<std::vector<float>> data(size(), std::vector<float>(100000));
  std::vector<std::unique_ptr<Work>> works;
  const int gone = size() - 1;
  for (int r = 0; r < gone; ++r)
    works.push_back(groups[r]->AllReduce(absl::MakeSpan(data[r]), ReduceOp::kSum));
  groups[gone].reset();
  for (auto& work : works) {
    const absl::Status status = work->Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    if (names_ranks()) {
      EXPECT_EQ(status.message(),
                absl::StrCat("all_reduce 1: rank ", gone, " went away", words_of_gone()));
    }
  }
}

TEST_P(GroupConformance, WorkOutlivesItsGroup) {
  if (alone()) GTEST_SKIP() << "one rank never blocks";
  Groups groups = Open();
  std::vector<std::vector<float>> data(size(), std::vector<float>(8));
  std::unique_ptr<Work> work = groups[0]->AllReduce(absl::MakeSpan(data[0]), ReduceOp::kSum);
  groups.clear();
  EXPECT_EQ(work->Wait().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(work->done());
}

TEST_P(GroupConformance, RanksMayLeaveOneByOneAfterTheLastOperation) {
  for (int round = 0; round < 10; ++round) {
    Groups groups = Open();
    std::vector<std::jthread> threads;
    for (auto& group : groups)
      threads.emplace_back([&group] {
        std::vector<float> data(30000, 1.0f);
        ASSERT_EQ(group->AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait(), absl::OkStatus());
        ASSERT_EQ(group->Leave()->Wait(), absl::OkStatus());
        group.reset();
      });
  }
}

}  // namespace dp::engine
