#include "dp/sync_batch_norm.h"

#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/nn/batch_statistics.h"
#include "worker/library/testing/rank_threads.h"
#include "worker/library/testing/thrown.h"

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::OnRanks;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// Four samples of two channels and two positions.
const std::vector<float> kBatch = {1, 3, -2, 0, 5, 2, 4, 4, 100, 101, 7, -6, 2, 2, 9, 1};
const std::vector<float> kSlopes = {1, 2, -1, 3, 0, 4, 2, 2, -3, 1, 1, 0, 2, 5, -2, 1};

void Set(std::span<float> to, const std::vector<float>& values) {
  std::copy(values.begin(), values.end(), to.begin());
}

struct Trained {
  std::vector<float> output, input_grad, weight_grad, bias_grad, running_mean, running_var;
};

// Forward and backward of a rank's samples [begin, end) of the batch.
Trained Train(const ProcessGroup& group, size_t begin, size_t end) {
  SyncBatchNorm norm(2, {.process_group = group});
  Set(norm.weight, {2, 0.5});
  Set(norm.bias, {1, -1});
  const auto of = [&](const std::vector<float>& all) {
    return std::vector<float>(all.begin() + 4 * begin, all.begin() + 4 * end);
  };
  const std::vector<float> input = of(kBatch), slopes = of(kSlopes);
  std::vector<float> output(input.size()), input_grad(input.size());
  norm.forward(input, output, end - begin);
  norm.backward(input, slopes, input_grad, end - begin);
  const auto copy = [](std::span<const float> values) {
    return std::vector<float>(values.begin(), values.end());
  };
  return {output,
          input_grad,
          copy(norm.weight_grad),
          copy(norm.bias_grad),
          copy(norm.running_mean),
          copy(norm.running_var)};
}

Trained TrainAlone() {
  Trained alone;
  OnRanks(1, "auto", [&](const ProcessGroup& group) { alone = Train(group, 0, 4); });
  return alone;
}

TEST(SyncBatchNormTest, OneRankNormalizesItsBatch) {
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    SyncBatchNorm norm(1, {.eps = 0, .momentum = 0.5, .process_group = group});
    Set(norm.weight, {2});
    Set(norm.bias, {10});
    std::vector<float> output(4);
    norm.forward(std::vector<float>{1, 3, 1, 3}, output, 4);  // mean 2, deviation 1
    EXPECT_THAT(output, ElementsAre(8, 12, 8, 12));
    EXPECT_FLOAT_EQ(norm.running_mean[0], 1);
    EXPECT_FLOAT_EQ(norm.running_var[0], 0.5f * 1 + 0.5f * 4 / 3);
    Set(norm.running_mean, {1});
    Set(norm.running_var, {4});
    norm.evaluate(std::vector<float>{1, 3, 1, 5}, output, 4);
    EXPECT_THAT(output, ElementsAre(10, 12, 10, 14));
    EXPECT_EQ(norm.num_batches_tracked, 1);
  });
}

TEST(SyncBatchNormTest, RanksTogetherGiveTheBatchOfAll) {
  const Trained alone = TrainAlone();
  const auto near = [](const std::vector<float>& expected) {
    return Pointwise(FloatNear(1e-5f), expected);
  };
  // Ranks have one, none and three of the samples.
  const std::vector<std::pair<size_t, size_t>> shares = {{0, 1}, {1, 1}, {1, 4}};
  std::vector<Trained> ranks(shares.size());
  OnRanks(3, "auto", [&](const ProcessGroup& group) {
    const auto [begin, end] = shares[size_t(group.rank())];
    ranks[size_t(group.rank())] = Train(group, begin, end);
  });
  std::vector<float> output, input_grad, weight_grad(2), bias_grad(2);
  for (const Trained& rank : ranks) {
    output.insert(output.end(), rank.output.begin(), rank.output.end());
    input_grad.insert(input_grad.end(), rank.input_grad.begin(), rank.input_grad.end());
    for (const size_t c : {0, 1}) weight_grad[c] += rank.weight_grad[c];
    for (const size_t c : {0, 1}) bias_grad[c] += rank.bias_grad[c];
    EXPECT_EQ(rank.running_mean, ranks[0].running_mean);
    EXPECT_THAT(rank.running_mean, near(alone.running_mean));
    EXPECT_THAT(rank.running_var, Pointwise(FloatNear(1e-3f), alone.running_var));
  }
  EXPECT_THAT(output, near(alone.output));
  EXPECT_THAT(input_grad, near(alone.input_grad));
  EXPECT_THAT(weight_grad, near(alone.weight_grad));
  EXPECT_THAT(bias_grad, near(alone.bias_grad));
}

// The derivative, by differences: the loss is the sum of the outputs times kSlopes.
TEST(SyncBatchNormTest, BackwardIsTheDerivativeOfForward) {
  const Trained alone = TrainAlone();
  OnRanks(1, "auto", [&](const ProcessGroup& group) {
    const auto loss = [&](const std::vector<float>& input) {
      SyncBatchNorm norm(2, {.process_group = group});
      Set(norm.weight, {2, 0.5});
      std::vector<float> output(input.size());
      norm.forward(input, output, 4);
      double sum = 0;
      for (size_t i = 0; i < output.size(); ++i) sum += double(output[i]) * kSlopes[i];
      return sum;
    };
    for (size_t i = 0; i < kBatch.size(); ++i) {
      std::vector<float> more = kBatch, less = kBatch;
      more[i] += 0.125f;
      less[i] -= 0.125f;
      EXPECT_NEAR(alone.input_grad[i], (loss(more) - loss(less)) / 0.25, 2e-3) << i;
    }
  });
}

TEST(SyncBatchNormTest, RejectsArraysAndBatchesByTheirSizes) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    SyncBatchNorm norm(2, {.process_group = group});
    std::vector<float> three(3), two(2);
    EXPECT_THAT(ErrorOf([&] { norm.forward(three, three, 1); }).what(),
                HasSubstr("arrays of 3 and 3 values for 1 samples of 2 channels"));
    const size_t samples = group.rank() == 0 ? 1 : 0;
    two.resize(2 * samples);
    const DistError error = ErrorOf([&] { norm.forward(two, two, samples); });
    EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
    EXPECT_THAT(error.what(), HasSubstr("have 1 values for a channel"));
  });
}

TEST(SyncBatchNormTest, AnEmptyProcessGroupIsNotTheDefaultGroup) {
  const DistError error = ErrorOf([] { SyncBatchNorm(1, {.process_group = ProcessGroup()}); });
  EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
  EXPECT_THAT(error.what(), HasSubstr("process_group is an empty handle"));
}

TEST(BatchStatisticsTest, LargeMeansDoNotCancel) {
  const std::vector<float> one = {1e6f, 1e6f + 1}, two = {1e6f + 2, 1e6f + 3};
  std::vector<double> packed = engine::SumUp(one, 2, 1).Packed();
  const std::vector<double> more = engine::SumUp(two, 2, 1).Packed();
  packed.insert(packed.end(), more.begin(), more.end());
  const engine::BatchStatistics all = engine::Combine(packed, 1);
  EXPECT_EQ(all.count, 4);
  EXPECT_DOUBLE_EQ(all.mean[0], 1e6 + 1.5);
  EXPECT_DOUBLE_EQ(all.squares[0], 5);
}

}  // namespace
}  // namespace dp::distributed
