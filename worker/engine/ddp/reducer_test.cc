#include "worker/engine/ddp/reducer.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/local/local_group.h"
#include "worker/engine/collectives/testing/awkward_values.h"
#include "worker/engine/ddp/testing/layout_of_sizes.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr float kTolerance = 1e-6f;

// One rank: its gradients and the reducer over them.
struct Rank {
  Rank(Group& group, const ParameterLayout& layout, const ReducerOptions& options = {})
      : layout(layout),
        gradients(layout.size),
        reducer(group, layout, absl::MakeSpan(gradients), options) {}

  // Runs a backward that computes `values`, parameter after parameter.
  absl::Status Backward(const std::vector<std::vector<float>>& values,
                        Reducer::Sync sync = Reducer::Sync::kYes) {
    reducer.BeginBackward(sync);
    for (size_t p = 0; p < values.size(); ++p) {
      std::copy(values[p].begin(), values[p].end(),
                gradients.begin() + layout.parameters[p].offset);
      reducer.GradientReady(static_cast<int>(p));
    }
    return reducer.EndBackward();
  }

  std::vector<float> Gradient(int p) const {
    const auto begin = gradients.begin() + layout.parameters[p].offset;
    return {begin, begin + layout.parameters[p].size};
  }

  const ParameterLayout& layout;
  std::vector<float> gradients;
  Reducer reducer;
};

// Runs `body` as every rank of a world of `size`.
void OnRanks(int size, const std::function<void(Group&)>& body) {
  auto groups = MakeLocalGroups(size, {.timeout = absl::Seconds(60)});
  std::vector<std::jthread> threads;
  for (auto& group : groups) threads.emplace_back([&body, &group] { body(*group); });
}

// The gradients of sum(output * labels) of a linear layer 2 -> 3: the labels, and labels x inputs.
std::vector<std::vector<float>> LinearGradients(std::vector<float> inputs,
                                                std::vector<float> labels) {
  std::vector<float> weight;
  for (float label : labels)
    for (float input : inputs) weight.push_back(label * input);
  return {labels, weight};
}

TEST(ReducerTest, TwoRanksOfALinearLayerGetTheMeanOfTheirGradients) {
  const ParameterLayout layout = LayoutOfSizes({3, 6});  // bias, weight
  OnRanks(2, [&](Group& group) {
    Rank rank(group, layout);
    const auto mine = group.rank() == 0 ? LinearGradients({0.5209f, 0.3261f}, {1, 0, 0})
                                        : LinearGradients({-0.1868f, -1.0617f}, {0, 1, 0});
    ASSERT_TRUE(rank.Backward(mine).ok());
    EXPECT_THAT(rank.Gradient(0), ElementsAre(0.5f, 0.5f, 0.0f));
    const std::vector<float> weight{0.26045f, 0.16305f, -0.0934f, -0.53085f, 0.0f, 0.0f};
    EXPECT_THAT(rank.Gradient(1), Pointwise(FloatNear(kTolerance), weight));
  });
}

TEST(ReducerTest, RanksWithUnequalSharesAverageOverTheGlobalBatch) {
  // Samples 1 and 2 are on rank 0, sample 6 on rank 1. Each rank scales its sum by world size /
  // global count.
  const ParameterLayout layout = LayoutOfSizes({1});
  OnRanks(2, [&](Group& group) {
    Rank rank(group, layout);
    const float sum = group.rank() == 0 ? 1.0f + 2.0f : 6.0f;
    ASSERT_TRUE(rank.Backward({{sum * 2.0f / 3.0f}}).ok());
    EXPECT_FLOAT_EQ(rank.Gradient(0)[0], 3.0f);
  });
}

TEST(ReducerTest, GradientsAreBitIdenticalOverBucketPlansAndRanks) {
  const ParameterLayout layout = LayoutOfSizes({700, 3, 5000, 64, 1});
  std::vector<std::vector<float>> outcomes(3 * 4);
  size_t next = 0;
  for (int64_t cap : {64, 4096, 1 << 20}) {
    OnRanks(4, [&](Group& group) {
      Rank rank(group, layout, {.buckets = {.first_bytes = cap, .cap_bytes = cap}});
      std::vector<std::vector<float>> values;
      for (const Parameter& p : layout.parameters)
        values.push_back(AwkwardValues(group.rank(), p.size));
      ASSERT_TRUE(rank.Backward(values).ok());
      outcomes[next + group.rank()] = rank.gradients;
    });
    next += 4;
  }
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome, outcomes[0]);
}

// A group on a device, as the reducer sees it: an operation goes to a stream, and ends when the
// test decides.
class DeviceGroup : public Group {
 public:
  struct Operation {
    bool ended = false;
    int ordered = 0;
    int waited = 0;
    absl::Status status;
    ReduceOp op = ReduceOp::kSum;
  };

  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::unique_ptr<Work> Start(Collective call) override {
    operations.push_back(std::make_shared<Operation>());
    operations.back()->op = call.shape.op;
    return std::make_unique<DeviceWork>(operations.back());
  }
  std::unique_ptr<Work> Leave() override { return nullptr; }
  void Abort(const absl::Status&) override {}

  std::vector<std::shared_ptr<Operation>> operations;

 private:
  class DeviceWork : public Work {
   public:
    explicit DeviceWork(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}
    absl::Status Wait() override {
      ++operation_->waited;
      operation_->ended = true;
      return operation_->status;
    }
    absl::Status WaitOnStream() override {
      ++operation_->ordered;
      return absl::OkStatus();
    }
    bool done() const override { return operation_->ended; }
    WorkTimes times() const override { return {}; }

   private:
    const std::shared_ptr<Operation> operation_;
  };
};

// Two buckets on a device.
class ReducerOnDeviceTest : public ::testing::Test {
 protected:
  absl::Status Backward(const Reducer::Then& then = nullptr) {
    rank_.reducer.BeginBackward(Reducer::Sync::kYes);
    for (const int parameter : {0, 1}) rank_.reducer.GradientReady(parameter);
    return rank_.reducer.EndBackward(then);
  }
  // How often each operation was waited for.
  std::vector<int> Waited() const {
    std::vector<int> waited;
    for (const auto& operation : group_.operations) waited.push_back(operation->waited);
    return waited;
  }

  const ParameterLayout layout_ = LayoutOfSizes({16, 3});
  DeviceGroup group_;
  Rank rank_{group_,
             layout_,
             {.buckets = {.first_bytes = 64, .cap_bytes = 64}, .gradients_on_device = true}};
};

TEST_F(ReducerOnDeviceTest, BackwardsEndWithoutWaitingForTheDeviceAndAreSettledInTheirOrder) {
  ASSERT_TRUE(Backward().ok());
  ASSERT_TRUE(Backward().ok());
  for (const auto& operation : group_.operations) EXPECT_EQ(operation->ordered, 1);
  EXPECT_THAT(Waited(), ElementsAre(0, 0, 0, 0));
  ASSERT_TRUE(rank_.reducer.Settle().ok());
  EXPECT_THAT(Waited(), ElementsAre(1, 1, 0, 0));
  ASSERT_TRUE(rank_.reducer.Settle().ok());
  EXPECT_THAT(Waited(), ElementsAre(1, 1, 1, 1));
  EXPECT_TRUE(rank_.reducer.Settle().ok());
}

// If EndBackward settled the first one, the caller's Settle would settle the second one instead.
TEST_F(ReducerOnDeviceTest, WhatHasEndedEarlyIsStillToBeSettled) {
  ASSERT_TRUE(Backward().ok());
  for (const auto& operation : group_.operations) operation->ended = true;
  ASSERT_TRUE(Backward().ok());
  EXPECT_THAT(Waited(), ElementsAre(0, 0, 0, 0));
}

TEST_F(ReducerOnDeviceTest, TheGradientsAreLeftToTheGroup) {
  rank_.gradients.assign(layout_.size, 5.0f);
  ASSERT_TRUE(Backward().ok());
  EXPECT_EQ(group_.operations[0]->op, ReduceOp::kMean);
  EXPECT_THAT(rank_.gradients, ::testing::Each(5.0f));
}

TEST_F(ReducerOnDeviceTest, WhatFollowsABucketFollowsItAtOnce) {
  std::vector<int64_t> followed;
  const auto then = [&](const Bucket& bucket) {
    followed.push_back(bucket.offset);
    // The buckets behind it are not even ordered on the stream yet.
    EXPECT_EQ(group_.operations[1]->ordered, bucket.offset == 0 ? 0 : 1);
    return absl::OkStatus();
  };
  ASSERT_TRUE(Backward(then).ok());
  EXPECT_THAT(followed, ElementsAre(0, 16));
}

TEST_F(ReducerOnDeviceTest, AnErrorOfWhatFollowsEndsItAndLeavesNothingUnderWay) {
  ASSERT_TRUE(Backward().ok());
  int calls = 0;
  const auto then = [&](const Bucket&) {
    ++calls;
    return absl::InternalError("no room");
  };
  EXPECT_EQ(Backward(then), absl::InternalError("no room"));
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(Waited(), ElementsAre(1, 1, 1, 1));
}

TEST_F(ReducerOnDeviceTest, AnErrorOfABackwardIsThatOfItsSettling) {
  ASSERT_TRUE(Backward().ok());
  group_.operations[0]->status = absl::UnavailableError("all_reduce 1: rank 1 went away");
  ASSERT_TRUE(Backward().ok());
  EXPECT_EQ(rank_.reducer.Settle(), group_.operations[0]->status);
  EXPECT_THAT(Waited(), ElementsAre(1, 1, 0, 0));
}

// A device's addresses mean nothing to the host.
class RefusalsOnDeviceTest : public ::testing::Test {
 protected:
  absl::Status Backward(Reducer::Sync sync, int parameters) {
    const absl::Span<float> on_no_page(reinterpret_cast<float*>(alignof(float)), layout_.size);
    Reducer reducer(group_, layout_, on_no_page,
                    {.find_unused_parameters = true, .gradients_on_device = true});
    reducer.BeginBackward(sync);
    for (int p = 0; p < parameters; ++p) reducer.GradientReady(p);
    return reducer.EndBackward();
  }

  const ParameterLayout layout_ = LayoutOfSizes({3, 2});
  DeviceGroup group_;
};

TEST_F(RefusalsOnDeviceTest, AWholeStepTouchesNoGradient) {
  EXPECT_EQ(Backward(Reducer::Sync::kYes, 2), absl::OkStatus());
}

TEST_F(RefusalsOnDeviceTest, ToAccumulateIsRefusedWithWhatToDo) {
  const absl::Status status = Backward(Reducer::Sync::kNo, 2);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("take the whole batch in one backward"));
}

TEST_F(RefusalsOnDeviceTest, AnUnusedParameterIsNamedWithWhatToDo) {
  const absl::Status status = Backward(Reducer::Sync::kYes, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("for p1, and on a GPU none is taken for"));
}

// The position of an event in the trace; -1 if absent.
int At(const Trace& trace, TraceEvent::What what, int bucket = -1) {
  for (size_t i = 0; i < trace.size(); ++i)
    if (trace[i].what == what && trace[i].bucket == bucket) return static_cast<int>(i);
  return -1;
}

TEST(ReducerTest, BucketsAreReducedWhileBackwardStillRuns) {
  using What = TraceEvent::What;
  const ParameterLayout layout = LayoutOfSizes({64, 64, 64});
  OnRanks(2, [&](Group& group) {
    Rank rank(group, layout, {.buckets = {.first_bytes = 256, .cap_bytes = 256}});
    rank.reducer.BeginBackward(Reducer::Sync::kYes);
    rank.reducer.GradientReady(0);
    rank.reducer.GradientReady(1);
    // Backward of the first layer goes on only after every rank's first two buckets, which precede
    // this barrier.
    std::vector<float> barrier(1);
    ASSERT_TRUE(group.AllReduce(absl::MakeSpan(barrier), ReduceOp::kSum)->Wait().ok());
    rank.reducer.GradientReady(2);
    ASSERT_TRUE(rank.reducer.EndBackward().ok());
    const Trace& trace = rank.reducer.trace();
    for (int bucket : {0, 1}) {
      EXPECT_LT(At(trace, What::kBackwardBegun), At(trace, What::kBucketLaunched, bucket));
      EXPECT_LT(At(trace, What::kBucketLaunched, bucket), At(trace, What::kBucketBegun, bucket));
      EXPECT_LT(At(trace, What::kBucketBegun, bucket), At(trace, What::kBucketEnded, bucket));
      EXPECT_LT(At(trace, What::kBucketEnded, bucket), At(trace, What::kBackwardEnded));
    }
    EXPECT_EQ(At(trace, What::kStepEnded), static_cast<int>(trace.size()) - 1);
  });
}

TEST(ReducerTest, BackwardsWithoutSyncAccumulateIntoTheNextOneWithSync) {
  const ParameterLayout layout = LayoutOfSizes({2, 3});
  OnRanks(2, [&](Group& group) {
    Rank rank(group, layout);
    const float mine = static_cast<float>(group.rank() + 1);  // 1 and 2: the mean is 1.5
    for (int round = 0; round < 2; ++round) {
      for (float part : {mine, 10 * mine})
        ASSERT_TRUE(rank.Backward({{part, 0}, {0, 0, part}}, Reducer::Sync::kNo).ok());
      ASSERT_TRUE(rank.Backward({{100 * mine, 0}, {0, 0, 100 * mine}}).ok());
      EXPECT_THAT(rank.Gradient(0), ElementsAre(166.5f, 0));
      EXPECT_THAT(rank.Gradient(1), ElementsAre(0, 0, 166.5f));
    }
  });
}

TEST(ReducerTest, AParameterWithoutGradientIsNamedWithTheOption) {
  const ParameterLayout layout = LayoutOfSizes({2, 3, 4});
  OnRanks(2, [&](Group& group) {
    Rank rank(group, layout);
    const absl::Status status = rank.Backward({{1, 1}});
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("for p1, p2; set find_unused_parameters"));
  });
}

TEST(ReducerTest, WithFindUnusedParametersAMissingGradientIsZero) {
  const ParameterLayout layout = LayoutOfSizes({1, 1});
  OnRanks(2, [&](Group& group) {
    Rank rank(group, layout, {.find_unused_parameters = true});
    rank.gradients.assign(layout.size, 7.0f);  // left by an earlier step
    std::vector<std::vector<float>> values{{4.0f}};
    if (group.rank() == 1) values.push_back({6.0f});  // only rank 1 uses p1
    ASSERT_TRUE(rank.Backward(values).ok());
    EXPECT_FLOAT_EQ(rank.Gradient(0)[0], 4.0f);
    EXPECT_FLOAT_EQ(rank.Gradient(1)[0], 3.0f);
  });
}

TEST(ReducerTest, AnAbortedGroupEndsBackwardWithItsReason) {
  const ParameterLayout layout = LayoutOfSizes({8});
  auto groups = MakeLocalGroups(2);
  Rank rank(*groups[0], layout);
  std::jthread aborter([&] { groups[0]->Abort(absl::UnavailableError("generation 2 is over")); });
  const absl::Status status = rank.Backward({std::vector<float>(8)});
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("generation 2 is over"));
}

TEST(TraceTest, EventsPrintAsOneJsonObjectALine) {
  const absl::Time begin = absl::FromUnixSeconds(100);
  EXPECT_EQ(TraceJsonLines({{TraceEvent::What::kBackwardBegun, begin},
                            {TraceEvent::What::kBucketBegun, begin + absl::Microseconds(5), 0}},
                           /*step=*/7),
            "{\"step\":7,\"event\":\"backward_begun\",\"microseconds\":0}\n"
            "{\"step\":7,\"event\":\"bucket_begun\",\"bucket\":0,\"microseconds\":5}\n");
}

}  // namespace
}  // namespace dp::engine
