#include "worker/engine/nn/measure_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace dp::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Measures OfLabels(const MeasureOptions& options, const std::vector<float>& outputs,
                  const std::vector<int32_t>& labels) {
  MeasureSums sums(options);
  sums.Add({.outputs = outputs,
            .columns = options.columns,
            .rows = static_cast<int64_t>(labels.size()),
            .labels = labels});
  return sums.Result();
}

Measures OfTargets(int columns, const std::vector<float>& outputs,
                   const std::vector<float>& targets) {
  MeasureSums sums({.columns = columns, .absolute_error = true, .r2 = true});
  sums.Add({.outputs = outputs,
            .columns = columns,
            .rows = static_cast<int64_t>(outputs.size()) / columns,
            .targets = targets});
  return sums.Result();
}

TEST(MeasureSumsTest, OfEqualOutputsTheFirstFiveAreOnTop) {
  const MeasureOptions options = {.columns = 7, .top5 = true};
  const std::vector<float> equal(7, 1.0f);
  EXPECT_EQ(OfLabels(options, equal, {4}).top5, 1);
  EXPECT_EQ(OfLabels(options, equal, {5}).top5, 0);
  const std::vector<float> falling = {7, 6, 5, 4, 3, 2, 1};
  EXPECT_EQ(OfLabels(options, falling, {4}).top5, 1);
  EXPECT_EQ(OfLabels(options, falling, {5}).top5, 0);
}

TEST(MeasureSumsTest, ANanIsAheadAndNeverAHit) {
  const MeasureOptions options = {.columns = 6, .top5 = true};
  EXPECT_EQ(OfLabels(options, {NAN, 5, 4, 3, 2, 1}, {4}).top5, 1);
  EXPECT_EQ(OfLabels(options, {NAN, 5, 4, 3, 2, 1}, {5}).top5, 0);
  EXPECT_EQ(OfLabels(options, {NAN, 5, 4, 3, 2, 1}, {0}).top5, 0);
}

TEST(MeasureSumsTest, TheConfusionMatrixCountsByLabelAndPrediction) {
  const MeasureOptions options = {.columns = 2, .ignored = 7, .confusion = true};
  EXPECT_THAT(OfLabels(options, {1, 0, 0, 1, 0, 1, 1, 0}, {0, 0, 7, 1}).confusion,
              ElementsAre(1, 1, 1, 0));
}

TEST(MeasureSumsTest, TargetsByHand) {
  const Measures measures = OfTargets(2, {1, 5, 3, 5}, {2, 5, 4, 5});
  EXPECT_NEAR(*measures.mean_absolute_error, 0.5, 1e-12);
  EXPECT_NEAR(*measures.r2, ((1 - 2.0 / 2) + 1) / 2, 1e-12);  // the second column is constant
  EXPECT_NEAR(*OfTargets(1, {0, 0}, {3, 3}).r2, 0, 1e-12);
}

// Two ranks with uneven shares give what one process gives on all rows.
TEST(MeasureSumsTest, SumsOfRanksAddUp) {
  const std::vector<float> outputs = {1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1};
  const std::vector<int32_t> labels = {0, 0, 5};
  const MeasureOptions options = {.columns = 6, .top5 = true, .confusion = true};
  MeasureSums all(options), one(options), other(options);
  const auto add = [&](MeasureSums& sums, size_t first, size_t rows) {
    sums.Add({.outputs = absl::MakeConstSpan(outputs).subspan(first * 6, rows * 6),
              .columns = 6,
              .rows = static_cast<int64_t>(rows),
              .labels = absl::MakeConstSpan(labels).subspan(first, rows)});
  };
  add(all, 0, 3);
  add(one, 0, 2);
  add(other, 2, 1);
  for (size_t i = 0; i < one.sums().size(); ++i) one.sums()[i] += other.sums()[i];
  EXPECT_EQ(one.Result().top5, all.Result().top5);
  EXPECT_EQ(one.Result().confusion, all.Result().confusion);
  EXPECT_NEAR(*all.Result().top5, 1.0 / 3, 1e-12);
}

TEST(MeasureSumsTest, NothingToMeasureAndNoRowsGiveNoMeasures) {
  MeasureSums none({.columns = 9});
  EXPECT_THAT(none.sums(), IsEmpty());
  EXPECT_FALSE(none.Result().top5.has_value());
  const MeasureOptions options = {.columns = 6, .top5 = true};
  EXPECT_FALSE(OfLabels(options, {}, {}).top5.has_value());
}

}  // namespace
}  // namespace dp::engine
