#include "worker/engine/device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "worker/engine/nn/generator.h"

// What every device must do; the CPU is the definition.

namespace dp::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr int kBatchSize = 6;

// A model on the CPU with its arrays and one batch of random samples, all from fixed seeds.
class Bench {
 public:
  Bench(const std::vector<model::LayerSpec>& specs, const model::Shape& input, int threads = 1)
      : layers_(*model::CheckShapes(specs, input)),
        layout_(LayOut(layers_)),
        device_(*OpenCpu(threads)),
        values_(*device_->Allocate(layout_.size)),
        gradients_(*device_->Allocate(layout_.size)),
        images_(kBatchSize * model::ElementCount(input)),
        labels_(kBatchSize),
        samples_(kBatchSize) {
    Initialize(layout_, 3, values());
    Generator generator(5);
    for (float& pixel : images_) pixel = generator.Uniform(-1, 1);
    const int classes = static_cast<int>(model::ElementCount(layers_.back().out));
    for (int32_t& label : labels_) label = static_cast<int32_t>(generator.Next() % classes);
    std::iota(samples_.begin(), samples_.end(), 100);
    network_ = *device_->Compile(layers_, kBatchSize, 9, values(), gradients());
  }

  BatchResult Forward(Mode mode = Mode::kTrain, uint64_t draw = 0) {
    return network_->Forward({images_, labels_, samples_, count_, draw}, mode);
  }
  std::vector<int> Backward(float scale = 1) {
    std::vector<int> ready;
    network_->Backward(scale, [&](int index) { ready.push_back(index); });
    return ready;
  }
  void BackwardThen(const GradientReady& ready) { network_->Backward(1, ready); }
  std::vector<float> Logits() {
    std::vector<float> logits(kBatchSize * model::ElementCount(layers_.back().out));
    network_->ReadLogits(absl::MakeSpan(logits));
    return logits;
  }
  std::vector<float> Train(int steps) {
    const auto sgd = *device_->MakeSgd({0.1f, 0.9f, 1e-4f}, values(), gradients());
    for (int step = 0; step < steps; ++step) {
      Forward(Mode::kTrain, step);
      Backward(1.0f / kBatchSize);
      sgd->Step(step + 1);
    }
    return {values().begin(), values().end()};
  }

  // How much the loss sum grows with the value at `i`, by central difference.
  double Slope(int64_t i) {
    constexpr float kStep = 1.0f / 1024;
    const float value = values()[i];
    values()[i] = value + kStep;
    const double up = Forward().loss_sum;
    values()[i] = value - kStep;
    const double down = Forward().loss_sum;
    values()[i] = value;
    return (up - down) / (2 * kStep);
  }

  absl::Span<float> values() { return values_->span(); }
  absl::Span<float> gradients() { return gradients_->span(); }
  const ParameterLayout& layout() const { return layout_; }

  int count_ = kBatchSize;

 private:
  const std::vector<model::CheckedLayer> layers_;
  const ParameterLayout layout_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Array> values_;
  const std::unique_ptr<Array> gradients_;

 public:
  std::vector<float> images_;
  std::vector<int32_t> labels_;
  std::vector<int64_t> samples_;

 private:
  std::unique_ptr<Network> network_;
};

std::vector<model::LayerSpec> SmallCnn() {
  return {{"", model::Conv2d{.out = 5, .kernel = 3, .padding = 1}},
          {"", model::Relu{}},
          {"", model::MaxPool2d{.kernel = 2}},
          {"", model::Conv2d{.out = 18, .kernel = 3, .stride = 2, .bias = false}},
          {"", model::Flatten{}},
          {"", model::Linear{.out = 7}},
          {"", model::Relu{}},
          {"", model::Linear{.out = 3}}};
}

const model::Shape kSmallImage = {2, 10, 10};

void ExpectGradientsAreSlopes(Bench& bench) {
  bench.Forward();
  bench.Backward();
  const std::vector<float> gradients(bench.gradients().begin(), bench.gradients().end());
  for (const Parameter& p : bench.layout().parameters) {
    for (int64_t i = p.offset; i < p.offset + p.size; i += 1 + p.size / 7) {
      EXPECT_NEAR(gradients[i], bench.Slope(i), 0.02 + 0.02 * std::abs(gradients[i]))
          << p.name << " at " << i - p.offset;
    }
  }
}

TEST(DeviceTest, GradientsOfAConvolutionalModelAreTheSlopesOfTheLoss) {
  Bench bench(SmallCnn(), kSmallImage);
  ExpectGradientsAreSlopes(bench);
}

TEST(DeviceTest, GradientsFlowThroughAReluAnywhere) {
  Bench bench({{"", model::Relu{}},
               {"", model::Conv2d{.out = 4, .kernel = 3}},
               {"", model::MaxPool2d{.kernel = 3, .stride = 2}},
               {"", model::Relu{}},
               {"", model::Flatten{}},
               {"", model::Relu{}},
               {"", model::Linear{.out = 3, .bias = false}}},
              kSmallImage);
  ExpectGradientsAreSlopes(bench);
}

TEST(DeviceTest, GradientsFlowThroughWindowsThatOverlapAfterARelu) {
  Bench bench({{"", model::Conv2d{.out = 4, .kernel = 3}},
               {"", model::Relu{}},
               {"", model::MaxPool2d{.kernel = 3, .stride = 1}},
               {"", model::Flatten{}},
               {"", model::Linear{.out = 3}}},
              kSmallImage);
  ExpectGradientsAreSlopes(bench);
}

TEST(DeviceTest, GradientsFollowTheDropoutMaskOfTheirStep) {
  Bench bench({{"", model::Conv2d{.out = 4, .kernel = 3}},
               {"", model::Dropout{0.5}},
               {"", model::Flatten{}},
               {"", model::Dropout{0.2}},
               {"", model::Linear{.out = 3}}},
              kSmallImage);
  ExpectGradientsAreSlopes(bench);
}

TEST(DeviceTest, GradientsBecomeReadyInLayoutOrder) {
  Bench bench(SmallCnn(), kSmallImage);
  bench.Forward();
  EXPECT_THAT(bench.Backward(), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(bench.layout().parameters.size(), 7u);
}

TEST(DeviceTest, AGradientIsCompleteWhenItIsSaidToBeReady) {
  Bench bench(SmallCnn(), kSmallImage);
  bench.Forward();
  bench.Backward();
  const std::vector<float> expected(bench.gradients().begin(), bench.gradients().end());
  std::fill(bench.gradients().begin(), bench.gradients().end(), NAN);
  bench.Forward();
  bench.BackwardThen([&](int index) {
    const Parameter& p = bench.layout().parameters[index];
    for (int64_t i = p.offset; i < p.offset + p.size; ++i) {
      ASSERT_EQ(bench.gradients()[i], expected[i]) << p.name;
    }
  });
}

TEST(DeviceTest, PaddedRowsAddNothing) {
  Bench bench(SmallCnn(), kSmallImage);
  bench.count_ = 4;
  const double loss = bench.Forward().loss_sum;
  bench.Backward();
  const std::vector<float> expected(bench.gradients().begin(), bench.gradients().end());
  const size_t row = bench.images_.size() / kBatchSize;
  std::fill(bench.images_.begin() + 4 * row, bench.images_.end(), 77.0f);
  bench.labels_[5] = -1;
  EXPECT_EQ(bench.Forward().loss_sum, loss);
  bench.Backward();
  EXPECT_EQ(bench.gradients(), absl::MakeConstSpan(expected));
}

TEST(DeviceTest, ABatchWithoutSamplesGivesZeroGradients) {
  Bench bench(SmallCnn(), kSmallImage);
  bench.count_ = 0;
  EXPECT_EQ(bench.Forward().count, 0);
  bench.Backward();
  EXPECT_THAT(bench.gradients(), Each(0.0f));
}

TEST(DeviceTest, ScaleMultipliesEveryGradient) {
  Bench bench(SmallCnn(), kSmallImage);
  bench.Forward();
  bench.Backward(1);
  const std::vector<float> whole(bench.gradients().begin(), bench.gradients().end());
  bench.Backward(0.25f);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(bench.gradients()[i], whole[i] * 0.25f);
}

TEST(DeviceTest, DropoutIsOffInEvaluation) {
  Bench bench({{"", model::Flatten{}}, {"", model::Dropout{0.5}}, {"", model::Linear{.out = 3}}},
              kSmallImage);
  bench.Forward(Mode::kEvaluate, 1);
  const auto logits = bench.Logits();
  bench.Forward(Mode::kEvaluate, 2);
  EXPECT_EQ(bench.Logits(), logits);
}

TEST(DeviceTest, DropoutKeepsTheExpectedShareAndSum) {
  Bench bench({{"", model::Flatten{}}, {"", model::Dropout{0.25}}}, {50, 10, 10});
  std::fill(bench.images_.begin(), bench.images_.end(), 1.0f);
  bench.Forward(Mode::kTrain, 4);
  const auto out = bench.Logits();
  EXPECT_NEAR(std::count(out.begin(), out.end(), 0.0f) / double(out.size()), 0.25, 0.01);
  EXPECT_NEAR(std::accumulate(out.begin(), out.end(), 0.0) / out.size(), 1, 0.02);
}

TEST(DeviceTest, TheDropoutMaskBelongsToTheSampleNotToItsRow) {
  Bench bench({{"", model::Flatten{}}, {"", model::Dropout{0.5}}}, kSmallImage);
  bench.Forward(Mode::kTrain, 4);
  const auto before = bench.Logits();
  const size_t row = bench.images_.size() / kBatchSize;
  std::swap(bench.samples_[0], bench.samples_[5]);
  std::swap(bench.labels_[0], bench.labels_[5]);
  std::swap_ranges(bench.images_.begin(), bench.images_.begin() + row, bench.images_.end() - row);
  bench.Forward(Mode::kTrain, 4);
  const auto after = bench.Logits();
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + row, after.end() - row));
}

std::vector<float> TrainWith(int threads) {
  return Bench(SmallCnn(), kSmallImage, threads).Train(20);
}

TEST(DeviceTest, TheSameRunTwiceGivesTheSameBits) { EXPECT_EQ(TrainWith(1), TrainWith(1)); }

TEST(DeviceTest, TheSameRunTwiceGivesTheSameBitsOnTwoThreads) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the OpenMP runtime's barriers are invisible to the thread sanitizer";
#endif
  EXPECT_EQ(TrainWith(2), TrainWith(2));
}

TEST(DeviceTest, TrainingLowersTheLoss) {
  Bench bench(SmallCnn(), kSmallImage);
  const double before = bench.Forward().loss_sum;
  bench.Train(50);
  EXPECT_LT(bench.Forward().loss_sum, 0.1 * before);
  EXPECT_EQ(bench.Forward().correct, kBatchSize);
}

TEST(DeviceTest, ThreadsMustBePositive) {
  EXPECT_EQ(OpenCpu(0).status().message(), "threads per rank is 0; it must be 1 to 1024");
}

TEST(DeviceTest, ABuildWithoutCudaSaysSo) {
  const absl::Status status = OpenCuda(0).status();
  if (status.ok()) GTEST_SKIP() << "this build has CUDA";
  EXPECT_EQ(status.message(), "built without CUDA");
}

}  // namespace
}  // namespace dp::engine
