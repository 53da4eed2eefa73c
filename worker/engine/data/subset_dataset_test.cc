#include "worker/engine/data/subset_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "worker/engine/data/synthetic_dataset.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(SplitSamplesTest, EverySampleIsInOnePart) {
  const auto split = SplitSamples(10, 0.3, 7);
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_THAT(split->test, SizeIs(3));
  std::vector<int64_t> all = split->train;
  all.insert(all.end(), split->test.begin(), split->test.end());
  std::sort(all.begin(), all.end());
  EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(SplitSamples(10, 0.3, 7)->test, split->test);
  EXPECT_NE(SplitSamples(1000, 0.3, 8)->test, SplitSamples(1000, 0.3, 7)->test);
}

TEST(SplitSamplesTest, BothPartsHaveASample) {
  EXPECT_THAT(SplitSamples(2, 0.001, 0)->test, SizeIs(1));
  EXPECT_THAT(SplitSamples(1, 0.1, 0).status().message(),
              HasSubstr("train.data.validation 0.1 of 1 samples leaves none to train on"));
}

TEST(SubsetDatasetTest, SamplesAreThoseOfTheBase) {
  const SyntheticDatasetOptions options{.shape = {2}, .classes = 5, .samples = 20};
  std::shared_ptr<const Dataset> base = *MakeSyntheticDataset(options, data::Split::kTrain);
  const auto subset = MakeSubset(base, {3, 11});
  EXPECT_EQ(subset->size(), 2);
  EXPECT_EQ(subset->classes(), 5);
  std::vector<float> expected(4), inputs(4);
  std::vector<int32_t> labels(2);
  base->Gather({11, 3}, absl::MakeSpan(expected), absl::MakeSpan(labels));
  const std::vector<int64_t> samples = {1, 0};
  EXPECT_EQ(
      subset->Read(
          {.samples = samples, .inputs = absl::MakeSpan(inputs), .labels = absl::MakeSpan(labels)}),
      absl::OkStatus());
  EXPECT_EQ(inputs, expected);
  EXPECT_THAT(labels, ElementsAre(1, 3));
}

}  // namespace
}  // namespace dp::engine
