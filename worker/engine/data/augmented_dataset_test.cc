#include "worker/engine/data/augmented_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace dp::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Sample i has two channels of two rows and three columns: 10 i + 1 to 10 i + 6, and their
// negatives.
class Ramps final : public Dataset {
 public:
  int64_t size() const override { return 64; }
  const model::Shape& sample_shape() const override { return shape_; }
  int classes() const override { return 1; }
  void Gather(absl::Span<const int64_t> samples, absl::Span<float> images,
              absl::Span<int32_t>) const override {
    size_t at = 0;
    for (const int64_t sample : samples) {
      for (const int sign : {1, -1}) {
        for (int i = 1; i <= 6; ++i) images[at++] = static_cast<float>(sign * (10 * sample + i));
      }
    }
  }

 private:
  const model::Shape shape_ = {2, 2, 3};
};

std::vector<float> ReadSample(const Dataset& data, int64_t sample, uint64_t epoch) {
  std::vector<float> values(12);
  EXPECT_EQ(data.Read({.samples = absl::MakeConstSpan(&sample, 1),
                       .epoch = epoch,
                       .inputs = absl::MakeSpan(values)}),
            absl::OkStatus());
  return values;
}

std::unique_ptr<Dataset> Augmented(const AugmentOptions& options) {
  return *Augment(std::make_unique<Ramps>(), options, {{0.5f}, {0.25f}});
}

TEST(AugmentedDatasetTest, HalfOfTheSamplesAreMirrored) {
  const auto data = Augmented({.flip = true, .seed = 1});
  int mirrored = 0;
  for (int64_t sample = 0; sample < data->size(); ++sample) {
    const std::vector<float> values = ReadSample(*data, sample, 0);
    const auto base = static_cast<float>(10 * sample);
    if (values[0] == base + 1) continue;
    ++mirrored;
    EXPECT_THAT(values,
                ElementsAre(base + 3, base + 2, base + 1, base + 6, base + 5, base + 4, -base - 3,
                            -base - 2, -base - 1, -base - 6, -base - 5, -base - 4));
  }
  EXPECT_GT(mirrored, 16);
  EXPECT_LT(mirrored, 48);
}

TEST(AugmentedDatasetTest, ACropShiftsTheSampleAndFillsInBlack) {
  const auto data = Augmented({.padding = 1, .seed = 1});
  const float black = -2;  // (0 - 0.5) / 0.25
  std::set<std::pair<int, int>> shifts;
  for (int64_t sample = 0; sample < data->size(); ++sample) {
    const std::vector<float> values = ReadSample(*data, sample, 0);
    const auto base = static_cast<float>(10 * sample);
    for (const int down : {-1, 0, 1}) {
      for (const int right : {-1, 0, 1}) {
        std::vector<float> expected;
        for (const int sign : {1, -1}) {
          for (int row = 0; row < 2; ++row) {
            for (int column = 0; column < 3; ++column) {
              const int r = row - down, c = column - right;
              const bool inside = r >= 0 && r < 2 && c >= 0 && c < 3;
              expected.push_back(inside ? static_cast<float>(sign) *
                                              (base + static_cast<float>(3 * r + c + 1))
                                        : black);
            }
          }
        }
        if (values == expected) shifts.emplace(down, right);
      }
    }
  }
  EXPECT_EQ(shifts.size(), 9u);
}

TEST(AugmentedDatasetTest, AShiftBeyondTheSampleLeavesItBlack) {
  const auto data = Augmented({.padding = 9, .seed = 1});
  int black = 0;
  for (int64_t sample = 0; sample < data->size(); ++sample) {
    const std::vector<float> values = ReadSample(*data, sample, 0);
    black += std::count(values.begin(), values.end(), -2.0f) == 12;
  }
  EXPECT_GT(black, 0);
}

TEST(AugmentedDatasetTest, ChangesDependOnSeedEpochAndSampleAlone) {
  const AugmentOptions options{.flip = true, .padding = 2, .seed = 5};
  const auto data = Augmented(options), again = Augmented(options);
  const std::vector<int64_t> samples = {3, 7, 9};
  std::vector<float> batch(36);
  EXPECT_EQ(data->Read({.samples = samples, .epoch = 2, .inputs = absl::MakeSpan(batch)}),
            absl::OkStatus());
  const std::vector<float> alone = ReadSample(*again, 7, 2);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), batch.begin() + 12));
  int differ = 0;
  for (int64_t sample = 0; sample < 64; ++sample) {
    differ += ReadSample(*data, sample, 0) != ReadSample(*data, sample, 1);
  }
  EXPECT_GT(differ, 32);
}

TEST(AugmentedDatasetTest, TargetsOfSeveralAxesAreAnError) {
  class Pairs final : public Dataset {
   public:
    explicit Pairs(model::Shape targets) : targets_(std::move(targets)) {}
    int64_t size() const override { return 1; }
    const model::Shape& sample_shape() const override { return shape_; }
    int classes() const override { return 0; }
    model::Shape target_shape() const override { return targets_; }
    void Gather(absl::Span<const int64_t>, absl::Span<float>, absl::Span<int32_t>) const override {}

   private:
    const model::Shape shape_ = {1, 4, 4};
    const model::Shape targets_;
  };
  EXPECT_THAT(Augment(std::make_unique<Pairs>(model::Shape{4, 5}), {}, {}).status().message(),
              HasSubstr("have the shape 4x5 and would not fit any more; leave it out, or give"));
  EXPECT_TRUE(Augment(std::make_unique<Pairs>(model::Shape{5}), {}, {}).ok());
}

TEST(AugmentedDatasetTest, SamplesThatAreNoImagesAreAnError) {
  class Features final : public Dataset {
   public:
    int64_t size() const override { return 1; }
    const model::Shape& sample_shape() const override { return shape_; }
    int classes() const override { return 1; }
    void Gather(absl::Span<const int64_t>, absl::Span<float>, absl::Span<int32_t>) const override {}

   private:
    const model::Shape shape_ = {5};
  };
  EXPECT_THAT(Augment(std::make_unique<Features>(), {}, {}).status().message(),
              HasSubstr("but a sample has the shape 5; leave it out"));
}

}  // namespace
}  // namespace dp::engine
