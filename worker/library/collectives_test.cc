#include <algorithm>
#include <array>
#include <cstdint>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "dp/distributed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/rank_threads.h"
#include "worker/library/testing/thrown.h"

// Each collective as a caller sees it, over every backend. The engine's suites compare bits.

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::OnRanks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CollectivesTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!is_backend_available(backend_)) GTEST_SKIP() << "no Gloo";
  }

  const std::string backend_ = GetParam();
};

INSTANTIATE_TEST_SUITE_P(, CollectivesTest, ::testing::Values("gloo", "shm", "hierarchical"),
                         [](const auto& info) { return info.param; });

TEST_P(CollectivesTest, AllReduceTakesEveryTypeAndOperation) {
  OnRanks(3, backend_, [](const ProcessGroup& group) {
    const auto check = [&]<typename T>(T one, T two, T three, ReduceOp op, T expected) {
      std::vector<T> data(2, group.rank() == 0 ? one : group.rank() == 1 ? two : three);
      all_reduce(data, op, group);
      EXPECT_EQ(data[1], expected);
    };
    check(1.5f, 2.0f, 4.0f, ReduceOp::kProduct, 12.0f);
    check(1e15, -2e15, 3e15 + 0.5, ReduceOp::kSum, 2e15 + 0.5);
    check(1.0, 2.0, 6.0, ReduceOp::kAvg, 3.0);
    check(int32_t{-4}, int32_t{7}, int32_t{2}, ReduceOp::kMax, int32_t{7});
    check(int64_t{1} << 40, int64_t{2}, int64_t{3}, ReduceOp::kProduct, int64_t{6} << 40);
    check(uint8_t{200}, uint8_t{100}, uint8_t{1}, ReduceOp::kSum, uint8_t{45});
  });
}

TEST_P(CollectivesTest, HalvesAreAddedAsFloats) {
  OnRanks(2, backend_, [](const ProcessGroup& group) {
    const auto check = [&]<typename Half>(Half) {
      // The sum needs more bits than a half has: 256 + 0.5 and 256 - 0.25.
      std::vector<Half> data(1, Half(group.rank() == 0 ? 256.0f : 0.75f));
      all_reduce(data, ReduceOp::kSum, group);
      EXPECT_EQ(data[0].bits, Half(256.75f).bits);
      EXPECT_NEAR(static_cast<float>(data[0]), 256.75f, 2.0f);
    };
    check(Float16());
    check(Bfloat16());
  });
}

TEST_P(CollectivesTest, ReduceGivesTheResultToOneRank) {
  OnRanks(3, backend_, [](const ProcessGroup& group) {
    std::vector<int64_t> data = {group.rank(), 10};
    reduce(data, 2, ReduceOp::kSum, group);
    if (group.rank() == 2) {
      EXPECT_THAT(data, ElementsAre(3, 30));
    } else {
      EXPECT_THAT(data, ElementsAre(group.rank(), 10));
    }
  });
}

TEST_P(CollectivesTest, ReduceScatterGivesEachRankItsPart) {
  OnRanks(2, backend_, [](const ProcessGroup& group) {
    const std::vector<float> input = {1, 2, 30, float(40 + group.rank())};
    std::vector<float> output(2);
    reduce_scatter(output, input, ReduceOp::kSum, group);
    EXPECT_THAT(output, group.rank() == 0 ? ElementsAre(2, 4) : ElementsAre(60, 81));
  });
}

TEST_P(CollectivesTest, ReduceAndReduceScatterTakeEveryOperation) {
  OnRanks(3, backend_, [](const ProcessGroup& group) {
    const float mine = float(group.rank() + 1);
    const auto check = [&](ReduceOp op, float expected) {
      std::vector<float> data = {mine}, part(1);
      reduce(data, 0, op, group);
      EXPECT_THAT(data, ElementsAre(group.rank() == 0 ? expected : mine));
      reduce_scatter(part, std::vector<float>(3, mine), op, group);
      EXPECT_THAT(part, ElementsAre(expected));
    };
    check(ReduceOp::kAvg, 2);
    check(ReduceOp::kMin, 1);
    check(ReduceOp::kMax, 3);
    check(ReduceOp::kProduct, 6);
  });
}

TEST_P(CollectivesTest, GatherAndScatterAreEachOthersReverse) {
  OnRanks(3, backend_, [](const ProcessGroup& group) {
    const bool middle = group.rank() == 1;
    const std::array<int32_t, 2> mine = {group.rank(), 10 * group.rank()};
    std::vector<int32_t> all(middle ? 6 : 0);
    gather(all, mine, 1, group);
    if (middle) {
      EXPECT_THAT(all, ElementsAre(0, 0, 1, 10, 2, 20));
    } else {
      EXPECT_THAT(all, IsEmpty());
    }
    std::array<int32_t, 2> back = {};
    scatter(back, all, 1, group);
    EXPECT_EQ(back, mine);
  });
}

TEST_P(CollectivesTest, AllToAllTransposes) {
  OnRanks(3, backend_, [](const ProcessGroup& group) {
    std::vector<int32_t> input, output(3);
    for (int to = 0; to < 3; ++to) input.push_back(10 * group.rank() + to);
    all_to_all(output, input, group);
    EXPECT_THAT(output, ElementsAre(group.rank(), 10 + group.rank(), 20 + group.rank()));
  });
}

TEST_P(CollectivesTest, AllToAllTakesPartsOfAnySize) {
  OnRanks(2, backend_, [](const ProcessGroup& group) {
    // Rank 0 sends 1 element to itself and 2 to rank 1; rank 1 sends none to rank 0 and 1 to
    // itself.
    const bool first = group.rank() == 0;
    const std::vector<double> input = first ? std::vector<double>{1, 2, 3} : std::vector<double>{4};
    const std::vector<size_t> to = first ? std::vector<size_t>{1, 2} : std::vector<size_t>{0, 1};
    const std::vector<size_t> from = first ? std::vector<size_t>{1, 0} : std::vector<size_t>{2, 1};
    std::vector<double> output(first ? 1 : 3);
    all_to_all(output, input, from, to, group);
    if (first) {
      EXPECT_THAT(output, ElementsAre(1));
    } else {
      EXPECT_THAT(output, ElementsAre(2, 3, 4));
    }
  });
}

TEST_P(CollectivesTest, SendAndRecvAreForTwoRanksAlone) {
  OnRanks(3, backend_, [](const ProcessGroup& group) {
    std::vector<double> data(1000, group.rank());
    if (group.rank() == 2) send(data, 0, 7, group);
    if (group.rank() == 0) recv(data, 2, 7, group);
    EXPECT_EQ(data[999], group.rank() == 0 ? 2 : group.rank());
    all_reduce(data, ReduceOp::kMax, group);
    EXPECT_EQ(data[999], 2);
  });
}

TEST_P(CollectivesTest, RanksSendAroundARingAtTheSameTime) {
  OnRanks(3, backend_, [](const ProcessGroup& group) {
    const int next = (group.rank() + 1) % 3, previous = (group.rank() + 2) % 3;
    std::vector<int32_t> mine(500000, group.rank()), theirs(500000), again(1);
    Work sent = send_async(mine, next, 0, group);
    Work received = recv_async(theirs, previous, 0, group);
    sent.wait();
    received.wait();
    EXPECT_TRUE(received.is_completed());
    EXPECT_EQ(theirs, std::vector<int32_t>(500000, previous));
    Work one = isend(std::span<const int32_t>(mine).first(1), next, 1, group);
    irecv(again, previous, 1, group).wait();
    one.wait();
    EXPECT_EQ(again[0], previous);
  });
}

TEST_P(CollectivesTest, MessagesThatDoNotFitNameBothRanks) {
  OnRanks(2, backend_, [](const ProcessGroup& group) {
    std::vector<float> four(4), five(5);
    const bool first = group.rank() == 0;
    const DistError error =
        ErrorOf([&] { first ? send(four, 1, 3, group) : recv(five, 0, 3, group); });
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
    EXPECT_THAT(error.what(),
                HasSubstr(first ? "send to rank 1, tag 3: " : "recv from rank 0, tag 3: "));
    EXPECT_THAT(error.what(), HasSubstr("rank 0 sends 4 float32, rank 1 expects 5 float32; call"));
  });
}

TEST_P(CollectivesTest, AMessageToThisRankOrWithANegativeTagIsRejected) {
  OnRanks(2, backend_, [](const ProcessGroup& group) {
    std::vector<float> data(1);
    const DistError self = ErrorOf([&] { send(data, group.rank(), 0, group); });
    EXPECT_EQ(self.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(self.what(), HasSubstr("which is this rank; copy the data instead"));
    EXPECT_THAT(ErrorOf([&] { recv(data, 1 - group.rank(), -1, group); }).what(),
                HasSubstr("with tag -1; give 0 or more"));
    EXPECT_THAT(ErrorOf([&] { recv(data, 2, 0, group); }).what(), HasSubstr("give 0 to 1"));
  });
}

// A rank's memory for any operation of two ranks.
struct Arrays {
  explicit Arrays(int rank)
      : part{float(1 + rank)}, all{float(5 + 10 * rank), float(6 + 10 * rank)} {}
  float sum() const { return part[0] + all[0] + all[1] + more[0] + more[1]; }

  std::vector<float> part, all, more = {0, 0}, none;
};

// An operation of two ranks that cannot end on rank 0 before rank 1 has called it.
struct Operation {
  std::string name;
  Work (*begin)(const ProcessGroup& group, Arrays& arrays);
  std::array<float, 2> sums;  // of each rank's arrays afterwards; 12 and 33 before
};

const std::vector<size_t> kOneEach = {1, 1};

const std::vector<Operation> kOperations = {
    {"all_reduce",
     [](const auto& group, auto& a) { return all_reduce_async(a.part, ReduceOp::kSum, group); },
     {14, 34}},
    {"reduce",
     [](const auto& group, auto& a) { return reduce_async(a.part, 0, ReduceOp::kSum, group); },
     {14, 33}},
    {"reduce_scatter",
     [](const auto& group, auto& a) {
       return reduce_scatter_async(a.part, a.all, ReduceOp::kSum, group);
     },
     {31, 53}},
    {"broadcast",
     [](const auto& group, auto& a) { return broadcast_async(a.part, 1, group); },
     {13, 33}},
    {"all_gather",
     [](const auto& group, auto& a) { return all_gather_async(a.all, a.part, group); },
     {4, 5}},
    {"gather",
     [](const auto& group, auto& a) {
       return gather_async(group.rank() == 0 ? a.all : a.none, a.part, 0, group);
     },
     {4, 33}},
    {"scatter",
     [](const auto& group, auto& a) {
       return scatter_async(a.part, group.rank() == 1 ? a.all : a.none, 1, group);
     },
     {26, 47}},
    {"all_to_all",
     [](const auto& group, auto& a) { return all_to_all_async(a.more, a.all, group); },
     {32, 55}},
    {"all_to_all",
     [](const auto& group, auto& a) {
       return all_to_all_async(a.more, a.all, kOneEach, kOneEach, group);
     },
     {32, 55}},
    {"send to rank 1, tag 3",
     [](const auto& group, auto& a) {
       return group.rank() == 0 ? send_async(a.part, 1, 3, group) : recv_async(a.part, 0, 3, group);
     },
     {12, 32}},
    {"recv from rank 1, tag 3",
     [](const auto& group, auto& a) {
       return group.rank() == 0 ? irecv(a.part, 1, 3, group) : isend(a.part, 0, 3, group);
     },
     {13, 33}},
    {"barrier", [](const auto& group, auto&) { return barrier_async(group); }, {12, 33}},
};

TEST_P(CollectivesTest, EveryOperationIsAlsoAsynchronous) {
  for (const Operation& operation : kOperations) {
    std::latch begun(1);
    OnRanks(2, backend_, [&](const ProcessGroup& group) {
      Arrays arrays(group.rank());
      if (group.rank() == 1) begun.wait();
      Work work = operation.begin(group, arrays);
      if (group.rank() == 0) {
        EXPECT_FALSE(work.is_completed()) << operation.name;
        begun.count_down();
      }
      work.wait();
      EXPECT_TRUE(work.is_completed()) << operation.name;
      EXPECT_EQ(arrays.sum(), operation.sums[group.rank()]) << operation.name;
    });
  }
}

TEST_P(CollectivesTest, EveryOperationNamesWhoDidNotArrive) {
  std::vector<std::jthread> groups;  // all at once, since each waits for its time limit
  for (const Operation& operation : kOperations)
    groups.emplace_back([&, this] {
      std::latch done(1);
      OnRanks(
          2, backend_,
          [&](const ProcessGroup& group) {
            if (group.rank() == 1) return done.wait();
            Arrays arrays(0);
            const DistError error = ErrorOf([&] { operation.begin(group, arrays).wait(); });
            done.count_down();
            EXPECT_EQ(error.kind(), ErrorKind::kTimeout) << operation.name;
            EXPECT_THAT(error.missing_ranks(), ElementsAre(1)) << operation.name;
            EXPECT_THAT(error.what(), HasSubstr(": " + operation.name));
            EXPECT_THAT(error.what(), HasSubstr("rank 1 did not arrive within 5s"));
          },
          std::chrono::seconds(5));
    });
}

TEST_P(CollectivesTest, CallsThatDifferAreStatedOnEveryRank) {
  OnRanks(2, backend_, [](const ProcessGroup& group) {
    std::vector<float> data(4);
    const DistError error =
        ErrorOf([&] { group.rank() == 0 ? broadcast(data, 0, group) : barrier(group); });
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
    EXPECT_THAT(error.what(),
                HasSubstr("rank 0 calls broadcast of 4 float32 from rank 0, rank 1 calls barrier; "
                          "call the same operation"));
  });
}

TEST_P(CollectivesTest, AllocatedMemoryIsZeroAndWorksLikeAnyOther) {
  OnRanks(2, backend_, [](const ProcessGroup& group) {
    const std::span<float> large = allocate<float>(200000, group);
    const std::span<int64_t> small = allocate<int64_t>(3, group);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data()) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(small.data()) % 64, 0u);
    EXPECT_THAT(small, ElementsAre(0, 0, 0));
    EXPECT_TRUE(std::all_of(large.begin(), large.end(), [](float value) { return value == 0; }));
    std::fill(large.begin(), large.end(), float(group.rank() + 1));
    all_reduce(large, ReduceOp::kSum, group);
    EXPECT_TRUE(std::all_of(large.begin(), large.end(), [](float value) { return value == 3; }));
    const DistError error = ErrorOf([&] { allocate<double>(static_cast<size_t>(-1) / 4, group); });
    EXPECT_EQ(error.kind(), ErrorKind::kLimit);
    EXPECT_THAT(error.what(), HasSubstr("no memory for "));
  });
}

TEST(CollectiveErrorTest, AnAverageOfIntegersIsRejected) {
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    std::vector<int32_t> data(2);
    const DistError error = ErrorOf([&] { all_reduce(data, ReduceOp::kAvg, group); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("avg of int32; an average is for floats"));
  });
}

TEST(CollectiveErrorTest, WrongSizesNameTheArrayAndTheRightSize) {
  OnRanks(2, "shm", [](const ProcessGroup& group) {
    std::vector<float> three(3), four(4), other(4);
    const std::vector<size_t> two_parts = {1, 2}, one_part = {3};
    const auto what = [](const auto& call) {
      const DistError error = ErrorOf(call);
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      return std::string(error.what());
    };
    EXPECT_THAT(what([&] { reduce_scatter(three, four, ReduceOp::kSum, group); }),
                HasSubstr("reduce_scatter: input has 4 elements; give it 6, a part for each rank"));
    EXPECT_THAT(what([&] { gather(three, four, group.rank(), group); }),
                HasSubstr("gather: output has 3 elements; give it 8"));
    EXPECT_THAT(what([&] { gather(three, four, 1 - group.rank(), group); }),
                HasSubstr("gather: output of a rank that is not dst has 3 elements; give it 0"));
    EXPECT_THAT(what([&] { scatter(three, four, group.rank(), group); }),
                HasSubstr("scatter: input has 4 elements; give it 6"));
    EXPECT_THAT(what([&] { all_to_all(four, three, group); }),
                HasSubstr("all_to_all: input has 3 elements; give it 2"));
    EXPECT_THAT(what([&] { all_to_all(four, three, one_part, two_parts, group); }),
                HasSubstr("all_to_all: output_counts has 1 elements; give it 2"));
    EXPECT_THAT(what([&] { all_to_all(four, three, two_parts, two_parts, group); }),
                HasSubstr("all_to_all: output has 4 elements; give it 3"));
    EXPECT_THAT(what([&] { all_to_all(four, four, group); }), HasSubstr("overlap"));
    barrier(group);
  });
}

TEST(CollectiveErrorTest, PartsThatDoNotFitNameBothRanks) {
  OnRanks(2, "shm", [](const ProcessGroup& group) {
    const bool first = group.rank() == 0;
    const std::vector<size_t> to = first ? std::vector<size_t>{0, 2} : std::vector<size_t>{0, 0};
    const std::vector<size_t> from = first ? std::vector<size_t>{0, 0} : std::vector<size_t>{1, 0};
    std::vector<float> input(first ? 2 : 0), output(first ? 0 : 1);
    const DistError error = ErrorOf([&] { all_to_all(output, input, from, to, group); });
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
    EXPECT_THAT(error.what(),
                HasSubstr("all_to_all 1: rank 0 sends 8 bytes to rank 1, which expects 4"));
  });
}

}  // namespace
}  // namespace dp::distributed
