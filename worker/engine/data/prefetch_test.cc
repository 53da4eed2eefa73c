#include "worker/engine/data/prefetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dp::engine {
namespace {

using ::testing::ElementsAre;

// Sample i is one pixel of value i with label i modulo 10.
class CountingDataset : public Dataset {
 public:
  int64_t size() const override { return 20; }
  const model::Shape& sample_shape() const override { return shape_; }
  int classes() const override { return 10; }
  void Gather(absl::Span<const int64_t> samples, absl::Span<float> images,
              absl::Span<int32_t> labels) const override {
    for (size_t i = 0; i < samples.size(); ++i) {
      images[i] = static_cast<float>(samples[i]);
      labels[i] = static_cast<int32_t>(samples[i] % 10);
    }
  }

 private:
  const model::Shape shape_ = {1, 1, 1};
};

class PrefetchTest : public testing::Test {
 protected:
  const CountingDataset data_{};
  const GlobalBatchSampler sampler_{
      {.n = 20, .global_batch_size = 6, .rank = 1, .world_size = 2, .shuffle = false}};
};

TEST_F(PrefetchTest, GivesEveryStepOfTheEpochInOrder) {
  Prefetch prefetch(data_, sampler_, 0, 100);
  std::vector<float> first;
  std::vector<uint64_t> draws;
  while (const Prefetch::Step* step = prefetch.Next()) {
    first.push_back(step->batch.images[0]);
    draws.push_back(step->batch.draw);
  }
  EXPECT_THAT(first, ElementsAre(1, 7, 13, 19));
  EXPECT_THAT(draws, ElementsAre(100, 101, 102, 103));
}

TEST_F(PrefetchTest, ABatchStaysAsItIsUntilTheNextCall) {
  Prefetch prefetch(data_, sampler_, 1, 0);
  const Prefetch::Step* step = prefetch.Next();
  EXPECT_THAT(step->batch.images, ElementsAre(7, 9, 11));
  EXPECT_THAT(step->batch.labels, ElementsAre(7, 9, 1));
  EXPECT_THAT(step->batch.samples, ElementsAre(7, 9, 11));
}

TEST_F(PrefetchTest, TheShortLastBatchSaysHowManyRowsCount) {
  Prefetch prefetch(data_, sampler_, 3, 0);
  const Prefetch::Step* step = prefetch.Next();
  EXPECT_EQ(step->batch.count, 1);
  EXPECT_EQ(step->global_count, 2);
  EXPECT_EQ(prefetch.Next(), nullptr);
}

TEST_F(PrefetchTest, CanBeDroppedInTheMiddle) {
  Prefetch prefetch(data_, sampler_, 0, 0);
  EXPECT_NE(prefetch.Next(), nullptr);
}

TEST_F(PrefetchTest, SeveralThreadsGiveTheSameStepsInTheSameOrder) {
  Prefetch prefetch(data_, sampler_, 0, 100, /*threads=*/3);
  std::vector<float> first;
  while (const Prefetch::Step* step = prefetch.Next()) first.push_back(step->batch.images[0]);
  EXPECT_THAT(first, ElementsAre(1, 7, 13, 19));
  EXPECT_EQ(prefetch.status(), absl::OkStatus());
}

// Samples above 9 cannot be read. Each sample is its epoch, and its number is to be predicted.
class BrokenDataset final : public CountingDataset {
 public:
  model::Shape target_shape() const override { return {1}; }
  absl::Status Read(const SampleRows& rows) const override {
    for (size_t i = 0; i < rows.samples.size(); ++i) {
      if (rows.samples[i] > 9) return absl::InvalidArgumentError("/d/x.png is damaged");
      rows.inputs[i] = static_cast<float>(rows.epoch);
      rows.targets[i] = static_cast<float>(rows.samples[i]);
    }
    return absl::OkStatus();
  }
};

TEST_F(PrefetchTest, ASampleThatCannotBeReadEndsTheSteps) {
  const BrokenDataset broken;
  for (const int threads : {1, 3}) {
    Prefetch prefetch(broken, sampler_, 0, 0, threads);
    EXPECT_NE(prefetch.Next(), nullptr);
    EXPECT_EQ(prefetch.Next(), nullptr);
    EXPECT_EQ(prefetch.status().message(), "/d/x.png is damaged");
    EXPECT_EQ(prefetch.Next(), nullptr);
  }
}

TEST_F(PrefetchTest, TargetsAreReadAsTheEpochHasThem) {
  const BrokenDataset data;
  GlobalBatchSampler sampler({.n = 20, .global_batch_size = 3, .shuffle = false});
  sampler.SetEpoch(5);
  Prefetch prefetch(data, sampler, 1, 0);
  const Batch& batch = prefetch.Next()->batch;
  EXPECT_THAT(batch.images, ElementsAre(5, 5, 5));
  EXPECT_THAT(batch.targets, ElementsAre(3, 4, 5));
  EXPECT_TRUE(batch.labels.empty());
}

}  // namespace
}  // namespace dp::engine
