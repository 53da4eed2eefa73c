#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "absl/strings/match.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/device/testing/device_conformance.h"

// Compares the device with the CPU, and its step programs with its own calls.

namespace dp::engine {
namespace {

double Norm(absl::Span<const float> values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

// Compares all values together: with bf16 a sum of terms that nearly cancel may be far off by
// itself.
void ExpectNearAsAWhole(absl::Span<const float> values, absl::Span<const float> expected,
                        double tolerance, const std::string& what) {
  ASSERT_EQ(values.size(), expected.size());
  std::vector<float> difference(values.size());
  std::transform(values.begin(), values.end(), expected.begin(), difference.begin(),
                 std::minus<float>());
  EXPECT_LE(Norm(difference), tolerance * Norm(expected) + 1e-6) << what;
}

// Measures differences against the largest value, so that sums near zero may round differently.
void ExpectNear(absl::Span<const float> values, absl::Span<const float> expected, double tolerance,
                const std::string& what) {
  ASSERT_EQ(values.size(), expected.size());
  double largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(double{value}));
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance * largest + 1e-7) << what << " at " << i;
  }
}

void ExpectParametersNear(const DeviceUnderTest& device, const ParameterLayout& layout,
                          absl::Span<const float> values, absl::Span<const float> expected,
                          double tolerance) {
  const auto expect = device.precision == Precision::kFloat32 ? ExpectNear : ExpectNearAsAWhole;
  for (const Parameter& p : layout.parameters) {
    expect(values.subspan(p.offset, p.size), expected.subspan(p.offset, p.size), tolerance, p.name);
  }
}

// The bias of keys moves all scores of a query alike, so its true gradient is zero. AdamW then
// steps by the sign of the rounding error.
std::vector<float> WithoutKeyBiases(const ParameterLayout& layout, std::vector<float> values) {
  for (const Parameter& p : layout.parameters) {
    if (!absl::EndsWith(p.name, "attn.c_attn.bias")) continue;
    const auto keys = values.begin() + static_cast<ptrdiff_t>(p.offset + p.size / 3);
    std::fill(keys, keys + static_cast<ptrdiff_t>(p.size / 3), 0.0f);
  }
  return values;
}

}  // namespace

void ExpectEqualToTheCpu(const DeviceUnderTest& device, const Bench::Model& model) {
  Bench bench(device, model), cpu(OneCpuThread(), model);
  bench.count_ = cpu.count_ = model.batch_size - 1;
  const BatchResult result = bench.Forward(Mode::kTrain, 7);
  const BatchResult expected = cpu.Forward(Mode::kTrain, 7);
  EXPECT_NEAR(result.loss_sum, expected.loss_sum, device.tolerance * expected.loss_sum);
  const size_t known = cpu.Logits().size() / model.batch_size * (model.batch_size - 1);
  const auto expect = device.precision == Precision::kFloat32 ? ExpectNear : ExpectNearAsAWhole;
  expect(absl::MakeConstSpan(bench.Logits()).first(known),
         absl::MakeConstSpan(cpu.Logits()).first(known), device.tolerance, "logits");
  bench.Backward(0.5f);
  cpu.Backward(0.5f);
  ExpectParametersNear(device, cpu.layout(), bench.Gradients(), cpu.Gradients(), device.tolerance);
}

namespace {

TEST_P(TwinConformance, AnMlpGivesWhatItGivesOnTheCpu) {
  ExpectEqualToTheCpu(GetParam(), ImageModel(model::MlpPreset(), {1, 28, 28}));
}

TEST_P(TwinConformance, ACnnGivesWhatItGivesOnTheCpu) {
  ExpectEqualToTheCpu(GetParam(), ImageModel(model::CnnPreset(), {1, 28, 28}));
  ExpectEqualToTheCpu(GetParam(), ImageModel(SmallCnn(), kSmallImage));
}

TEST_P(TwinConformance, DropoutDropsWhatItDropsOnTheCpu) {
  ExpectEqualToTheCpu(GetParam(),
                      ImageModel({{"", model::Conv2d{.out = 4, .kernel = 3, .bias = false}},
                                  {"", model::Dropout{0.5}},
                                  {"", model::Flatten{}},
                                  {"", model::Dropout{0.3}},
                                  {"", model::Linear{.out = 5}}},
                                 kSmallImage));
}

TEST_P(TwinConformance, AGptGivesWhatItGivesOnTheCpu) {
  ExpectEqualToTheCpu(GetParam(), TextModel(SmallGpt()));
  // Heads as wide as a library's fused attention requires.
  ExpectEqualToTheCpu(GetParam(),
                      TextModel(model::Gpt({.blocks = 1, .heads = 2, .features = 128})));
}

TEST_P(TwinConformance, TrainingGoesWhereItGoesOnTheCpu) {
  constexpr int kSteps = 10;
  const double tolerance = 10 * GetParam().tolerance;
  const Bench::Model images = ImageModel(SmallCnn(), kSmallImage);
  ExpectParametersNear(GetParam(), LayOut(images.layers),
                       Bench(GetParam(), images).TrainBySgd(kSteps),
                       Bench(OneCpuThread(), images).TrainBySgd(kSteps), tolerance);
  if (GetParam().precision != Precision::kFloat32)
    return;  // AdamW follows signs of small gradients
  const Bench::Model text = TextModel(SmallGpt());
  const ParameterLayout layout = LayOut(text.layers);
  ExpectParametersNear(
      GetParam(), layout, WithoutKeyBiases(layout, Bench(GetParam(), text).TrainByAdamW(kSteps)),
      WithoutKeyBiases(layout, Bench(OneCpuThread(), text).TrainByAdamW(kSteps)), tolerance);
}

// Images and texts by formula. If `stored`, a device may copy the arrays behind them.
class FormulaDataset final : public Dataset {
 public:
  FormulaDataset(const Bench::Model& model, bool stored)
      : shape_(model.layers.front().in),
        classes_(model.classes),
        of_tokens_(model.of_tokens),
        stored_(stored) {
    const int64_t elements = model::ElementCount(shape_);
    bytes_.resize(kSamples * elements);
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<uint8_t>(i * 37 + i / 11);
    labels_.resize(kSamples);
    for (size_t i = 0; i < labels_.size(); ++i) labels_[i] = static_cast<uint8_t>(i % classes_);
    tokens_.resize(kSamples * elements + 1);
    for (size_t i = 0; i < tokens_.size(); ++i) tokens_[i] = (i * 5 + i / 3) % classes_;
  }

  int64_t size() const override { return kSamples; }
  const model::Shape& sample_shape() const override { return shape_; }
  int classes() const override { return classes_; }
  bool of_tokens() const override { return of_tokens_; }
  Storage storage() const override {
    if (!stored_) return {};
    if (of_tokens_) return StoredTokens{{{tokens_, 0}}};
    return StoredImages{bytes_, labels_, kMean, kStd};
  }
  void Gather(absl::Span<const int64_t> samples, absl::Span<float> images,
              absl::Span<int32_t> labels) const override {
    const int64_t elements = model::ElementCount(shape_);
    for (size_t i = 0; i < samples.size(); ++i) {
      const int64_t first = samples[i] * elements;
      for (int64_t k = 0; k < elements; ++k) {
        images[i * elements + k] =
            of_tokens_ ? tokens_[first + k]
                       : (static_cast<float>(bytes_[first + k]) / 255.0f - kMean) / kStd;
        if (of_tokens_) labels[i * elements + k] = tokens_[first + k + 1];
      }
      if (!of_tokens_) labels[i] = labels_[samples[i]];
    }
  }

 private:
  static constexpr int64_t kSamples = 20;
  static constexpr float kMean = 0.3f;
  static constexpr float kStd = 0.4f;

  const model::Shape shape_;
  const int classes_;
  const bool of_tokens_;
  const bool stored_;
  std::vector<uint8_t> bytes_;
  std::vector<uint8_t> labels_;
  std::vector<uint16_t> tokens_;
};

// The same steps over a data set, by a program or by the network's own calls. One batch is short,
// and samples are out of order.
class StepsOfAProgram {
 public:
  StepsOfAProgram(const DeviceUnderTest& device, const Bench::Model& model, bool stored)
      : batch_size_(model.batch_size), bench_(device, model), data_(model, stored) {
    const OptimizerOptions options = model.of_tokens
                                         ? OptimizerOptions{AdamWOptions{.learning_rate = 0.01}}
                                         : OptimizerOptions{SgdOptions{0.05f, 0.9f, 1e-4f}};
    optimizer_ = *bench_.device().MakeOptimizer(options, bench_.layout(), bench_.values(),
                                                bench_.gradients());
    tail_ = *bench_.device().Allocate(kStepTailSize);
  }

  std::unique_ptr<StepProgram> MakeProgram() {
    return *bench_.device().MakeStepProgram({.network = bench_.network(),
                                             .optimizer = *optimizer_,
                                             .data = data_,
                                             .tail = tail_->span()});
  }

  std::vector<float> RunByParts() {
    std::vector<float> losses;
    for (int step = 0; step < kSteps; ++step) {
      const BatchResult result = bench_.network().Forward(BatchOf(step), Mode::kTrain);
      losses.push_back(static_cast<float>(result.loss_sum) * kScale);
      bench_.network().Backward(kScale, [](int) {});
      optimizer_->Step(StepOf(step));
    }
    return losses;
  }
  std::vector<float> RunByProgram(StepProgram& program) {
    std::vector<float> losses;
    for (int step = 0; step < kSteps; ++step) {
      if (program.under_way() == program.under_way_max()) losses.push_back(program.End().loss);
      EXPECT_TRUE(
          program.Begin({.batch = BatchOf(step), .scale = kScale, .step = StepOf(step)}).ok());
      images_.assign(images_.size(), -1.0f);  // the borrowed memory is free again
    }
    while (program.under_way() > 0) losses.push_back(program.End().loss);
    return losses;
  }
  Bench& bench() { return bench_; }

 private:
  static constexpr int kSteps = 7;
  static constexpr float kScale = 0.125f;

  // The rate changes in every step, as a schedule changes it.
  static OptimizerStep StepOf(int step) {
    return {.number = step + 1, .learning_rate_factor = 1.0 / (1 + step)};
  }
  Batch BatchOf(int step) {
    const int count = step == 3 ? batch_size_ - 1 : batch_size_;
    samples_.resize(batch_size_);
    for (int i = 0; i < count; ++i) samples_[i] = (step * 7 + i * 3) % data_.size();
    images_.resize(batch_size_ * model::ElementCount(data_.sample_shape()));
    labels_.resize(batch_size_ * data_.labels_per_sample());
    data_.Gather(absl::MakeConstSpan(samples_).first(count), absl::MakeSpan(images_),
                 absl::MakeSpan(labels_));
    return {images_, labels_, samples_, count, static_cast<uint64_t>(step)};
  }

  const int batch_size_;
  Bench bench_;
  const FormulaDataset data_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Array> tail_;
  std::vector<float> images_;
  std::vector<int32_t> labels_;
  std::vector<int64_t> samples_;
};

void ExpectAProgramToTakeTheStepsOfItsParts(const DeviceUnderTest& device,
                                            const Bench::Model& model) {
  for (const bool stored : {false, true}) {
    StepsOfAProgram by_program(device, model, stored), by_parts(device, model, stored);
    const std::unique_ptr<StepProgram> program = by_program.MakeProgram();
    if (program == nullptr) GTEST_SKIP() << device.name << " has no step programs";
    EXPECT_EQ(program->has_data(), stored);
    EXPECT_EQ(by_program.RunByProgram(*program), by_parts.RunByParts());
    EXPECT_EQ(by_program.bench().Values(), by_parts.bench().Values());
  }
}

TEST_P(TwinConformance, AProgramOverImagesTakesTheStepsOfItsParts) {
  ExpectAProgramToTakeTheStepsOfItsParts(GetParam(), ImageModel({{"", model::Dropout{0.2}},
                                                                 {"", model::Flatten{}},
                                                                 {"", model::Linear{.out = 7}},
                                                                 {"", model::Relu{}},
                                                                 {"", model::Linear{.out = 3}}},
                                                                {1, 6, 6}));
}

TEST_P(TwinConformance, AProgramOfAResidualNetworkTakesTheStepsOfItsParts) {
  ExpectAProgramToTakeTheStepsOfItsParts(
      GetParam(), ImageModel({{"", model::Conv2d{.out = 4, .kernel = 3, .bias = false}},
                              {"", model::BatchNorm{}},
                              {"in", model::Relu{}},
                              {"", model::Conv2d{.out = 4, .kernel = 1, .bias = false}},
                              {"", model::BatchNorm{}},
                              {"", model::Add{"in"}},
                              {"", model::Relu{}},
                              {"", model::AdaptiveAvgPool2d{}},
                              {"", model::Flatten{}},
                              {"", model::Linear{.out = 3}}},
                             {1, 6, 6}));
}

TEST_P(TwinConformance, AProgramOverATextTakesTheStepsOfItsParts) {
  ExpectAProgramToTakeTheStepsOfItsParts(GetParam(), TextModel(SmallGpt()));
}

}  // namespace
}  // namespace dp::engine
