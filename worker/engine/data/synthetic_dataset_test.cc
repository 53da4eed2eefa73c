#include "worker/engine/data/synthetic_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace dp::engine {
namespace {

using ::testing::ElementsAre;

struct Gathered {
  std::vector<float> values;
  std::vector<int32_t> labels;
};

Gathered All(const SyntheticDatasetOptions& options, data::Split split = data::Split::kTrain) {
  const auto data = *MakeSyntheticDataset(options, split);
  Gathered all{std::vector<float>(data->size() * model::ElementCount(options.shape)),
               std::vector<int32_t>(data->size())};
  std::vector<int64_t> samples(data->size());
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<int64_t>(i);
  data->Gather(samples, absl::MakeSpan(all.values), absl::MakeSpan(all.labels));
  return all;
}

TEST(SyntheticDatasetTest, SamplesDependOnTheSeedAlone) {
  const SyntheticDatasetOptions options{.shape = {1, 2, 2}, .classes = 2, .samples = 5, .seed = 3};
  const Gathered first = All(options);
  EXPECT_EQ(All(options).values, first.values);
  EXPECT_THAT(first.labels, ElementsAre(0, 1, 0, 1, 0));
  SyntheticDatasetOptions other = options;
  other.seed = 4;
  EXPECT_NE(All(other).values, first.values);
  for (const float value : first.values) EXPECT_TRUE(value >= 0 && value < 1);
}

TEST(SyntheticDatasetTest, TheTestHasTheSamePatternsAndOtherNoise) {
  const SyntheticDatasetOptions options{
      .shape = {64}, .classes = 2, .samples = 4, .test_samples = 2};
  const Gathered train = All(options), test = All(options, data::Split::kTest);
  const auto distance = [&](int a, int b) {
    double sum = 0;
    for (int i = 0; i < 64; ++i)
      sum += std::abs(train.values[a * 64 + i] - test.values[b * 64 + i]);
    return sum;
  };
  EXPECT_GT(distance(0, 0), 0);
  EXPECT_LT(distance(0, 0), distance(0, 1));
  EXPECT_LT(distance(1, 1), distance(1, 0));
}

}  // namespace
}  // namespace dp::engine
