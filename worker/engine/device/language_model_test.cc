#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "worker/engine/device/device.h"
#include "worker/engine/nn/generator.h"

// What every device must do with the layers of a language model; the CPU is the definition.

namespace dp::engine {
namespace {

constexpr int kTextBatch = 3;
constexpr int kTokens = 5;
constexpr int kVocabulary = 7;

// A model of tokens on the CPU with its arrays and one batch, all from fixed seeds.
class TextBench {
 public:
  explicit TextBench(const std::vector<model::LayerSpec>& specs, int threads = 1)
      : layers_(*model::CheckLanguageModel(specs, kTokens, kVocabulary)),
        layout_(LayOut(layers_)),
        device_(*OpenCpu(threads)),
        values_(*device_->Allocate(layout_.size)),
        gradients_(*device_->Allocate(layout_.size)) {
    Generator generator(5);
    for (const Parameter& p : layout_.parameters) {
      for (float& value : values().subspan(p.offset, p.size)) value = generator.Uniform(-1, 1);
    }
    for (float& token : tokens_) token = static_cast<float>(generator.Next() % kVocabulary);
    for (int32_t& label : labels_) label = static_cast<int32_t>(generator.Next() % kVocabulary);
    network_ = *device_->Compile(layers_, kTextBatch, 9, values(), gradients());
  }

  BatchResult Forward() {
    return network_->Forward({tokens_, labels_, samples_, count_, 0}, Mode::kTrain);
  }
  std::vector<float> Gradients() {
    Forward();
    ready_.clear();
    network_->Backward(1, [this](int index) { ready_.push_back(index); });
    return {gradients().begin(), gradients().end()};
  }
  // Of one sample.
  std::vector<float> Logits(int sample) {
    std::vector<float> all(kTextBatch * model::ElementCount(layers_.back().out));
    network_->ReadLogits(absl::MakeSpan(all));
    const size_t size = all.size() / kTextBatch;
    return {all.begin() + sample * size, all.begin() + (sample + 1) * size};
  }
  std::vector<float> Train(int steps) {
    const auto adamw = *device_->MakeAdamW({.learning_rate = 0.02}, layout_, values(), gradients());
    for (int step = 1; step <= steps; ++step) {
      Forward();
      network_->Backward(1.0f / (kTextBatch * kTokens), [](int) {});
      adamw->Step(step);
    }
    return {values().begin(), values().end()};
  }

  // How much the loss sum grows with the value at `i`, by central difference.
  double Slope(int64_t i) {
    constexpr float kStep = 1.0f / 256;
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

  int count_ = kTextBatch;
  std::vector<float> tokens_ = std::vector<float>(kTextBatch * kTokens);
  std::vector<int32_t> labels_ = std::vector<int32_t>(kTextBatch * kTokens);
  std::vector<int64_t> samples_ = {100, 101, 102};
  std::vector<int> ready_;  // in the last Gradients

 private:
  const std::vector<model::CheckedLayer> layers_;
  const ParameterLayout layout_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Array> values_;
  const std::unique_ptr<Array> gradients_;
  std::unique_ptr<Network> network_;
};

void ExpectGradientsAreSlopes(TextBench& bench) {
  const std::vector<float> gradients = bench.Gradients();
  for (const Parameter& p : bench.layout().parameters) {
    for (int64_t i = p.offset; i < p.offset + p.size; i += 1 + p.size / 11) {
      EXPECT_NEAR(gradients[i], bench.Slope(i), 0.01 + 0.01 * std::abs(gradients[i]))
          << p.name << " at " << i - p.offset;
    }
  }
}

// An embedding, the layers under test, and an output layer.
TextBench BenchOf(std::vector<model::LayerSpec> layers) {
  layers.insert(layers.begin(), {"wte", model::Embedding{.features = 6}});
  layers.push_back({"out", model::Linear{.out = kVocabulary}});
  return TextBench(layers);
}

TEST(LanguageModelTest, GradientsFlowIntoAnEmbeddingAndPositions) {
  TextBench bench = BenchOf({{"", model::Positions{}}});
  ExpectGradientsAreSlopes(bench);
}

TEST(LanguageModelTest, GradientsFlowThroughALayerNorm) {
  TextBench bench = BenchOf({{"", model::LayerNorm{}}});
  ExpectGradientsAreSlopes(bench);
}

TEST(LanguageModelTest, GradientsFlowThroughAGelu) {
  TextBench bench = BenchOf({{"", model::Linear{.out = 9}}, {"", model::Gelu{}}});
  ExpectGradientsAreSlopes(bench);
}

TEST(LanguageModelTest, GradientsFlowThroughAttention) {
  TextBench bench = BenchOf({{"", model::Linear{.out = 12}}, {"", model::CausalAttention{2}}});
  ExpectGradientsAreSlopes(bench);
}

TEST(LanguageModelTest, GradientsFlowRoundLayersAndThroughThem) {
  TextBench bench = BenchOf({{"a", model::Linear{.out = 6}},
                             {"b", model::Relu{}},
                             {"", model::Add{"wte"}},
                             {"", model::Add{"a"}},
                             {"", model::Add{"b"}},
                             {"", model::Add{"wte"}}});
  ExpectGradientsAreSlopes(bench);
}

TEST(LanguageModelTest, ATiedWeightGetsTheGradientsOfBothItsUses) {
  TextBench bench({{"wte", model::Embedding{.features = 6}},
                   {"", model::Gelu{}},
                   {"", model::TiedLinear{"wte"}}});
  EXPECT_EQ(bench.layout().parameters.size(), 1u);
  ExpectGradientsAreSlopes(bench);
}

std::vector<model::LayerSpec> SmallGpt() {
  return model::Gpt({.blocks = 2, .heads = 2, .features = 8});
}

TEST(LanguageModelTest, GradientsOfAGptAreTheSlopesOfTheLoss) {
  TextBench bench(SmallGpt());
  ExpectGradientsAreSlopes(bench);
}

TEST(LanguageModelTest, GradientsBecomeReadyInLayoutOrderAndATiedOneLast) {
  TextBench bench(SmallGpt());
  bench.Gradients();
  std::vector<int> order(bench.layout().parameters.size());
  std::iota(order.begin(), order.end(), 0);
  EXPECT_EQ(bench.ready_, order);
  EXPECT_EQ(bench.layout().parameters.back().name, "wte.weight");
}

TEST(LanguageModelTest, ATokenDoesNotSeeThoseBehindIt) {
  TextBench bench(SmallGpt());
  bench.Forward();
  const std::vector<float> before = bench.Logits(0);
  float& token = bench.tokens_[3];
  token = static_cast<float>((static_cast<int>(token) + 1) % kVocabulary);
  bench.Forward();
  const std::vector<float> after = bench.Logits(0);
  const size_t seen = 3 * kVocabulary;
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + seen, after.begin()));
  EXPECT_NE(before.back(), after.back());
}

TEST(LanguageModelTest, PaddedSamplesAddNothingWhateverTheyHold) {
  TextBench bench(SmallGpt());
  bench.count_ = 2;
  const double loss = bench.Forward().loss_sum;
  const std::vector<float> gradients = bench.Gradients();
  std::fill(bench.tokens_.begin() + 2 * kTokens, bench.tokens_.end(), -9.0f);
  bench.labels_.back() = -1;
  EXPECT_EQ(bench.Forward().loss_sum, loss);
  EXPECT_EQ(bench.Forward().count, 2);
  bench.Gradients();
  EXPECT_EQ(bench.gradients(), absl::MakeConstSpan(gradients));
}

TEST(LanguageModelTest, TrainingLowersTheLossWithTheSameBitsEachTime) {
  TextBench bench(SmallGpt());
  const double before = bench.Forward().loss_sum;
  const std::vector<float> values = bench.Train(60);
  EXPECT_LT(bench.Forward().loss_sum, 0.3 * before);
  EXPECT_EQ(TextBench(SmallGpt()).Train(60), values);
}

}  // namespace
}  // namespace dp::engine
