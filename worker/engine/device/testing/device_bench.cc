#include <cmath>
#include <numeric>

#include "worker/engine/device/testing/device_conformance.h"
#include "worker/engine/nn/generator.h"

namespace dp::engine {

Bench::Bench(const DeviceUnderTest& device, const Model& model)
    : model_(model),
      layout_(LayOut(model_.layers)),
      device_(*device.open()),
      values_(*device_->Allocate(layout_.size)),
      gradients_(*device_->Allocate(layout_.size)),
      count_(model_.batch_size),
      images_(model_.batch_size * model::ElementCount(model_.layers.front().in)),
      labels_(model_.of_tokens ? images_.size() : model_.batch_size),
      samples_(model_.batch_size),
      targets_(model_.batch_size * model::ElementCount(model_.layers.back().out)) {
  std::vector<float> values(layout_.size);
  Generator generator(5);
  if (model_.of_tokens) {
    // Larger than the values that training begins with, so that every layer matters.
    for (const Parameter& p : layout_.parameters) {
      for (int64_t i = 0; i < p.size; ++i) values[p.offset + i] = generator.Uniform(-1, 1);
    }
  } else {
    Initialize(layout_, 3, absl::MakeSpan(values));
  }
  SetValues(values);
  for (float& in : images_) {
    in = model_.of_tokens ? static_cast<float>(generator.Next() % model_.classes)
                          : generator.Uniform(-1, 1);
  }
  for (int32_t& label : labels_) label = static_cast<int32_t>(generator.Next() % model_.classes);
  for (float& target : targets_) target = generator.Uniform(0, 1);
  std::iota(samples_.begin(), samples_.end(), 100);
  network_ = *device_->Compile(model_.layers,
                               {.batch_size = model_.batch_size,
                                .seed = 9,
                                .precision = device.precision,
                                .loss = model_.loss},
                               values_->span(), gradients_->span());
}

BatchResult Bench::Forward(Mode mode, uint64_t draw) {
  return network_->Forward({images_, labels_, samples_, count_, draw, targets_}, mode);
}

std::vector<int> Bench::Backward(float scale) {
  std::vector<int> ready;
  network_->Backward(scale, [&](int index) { ready.push_back(index); });
  return ready;
}

std::vector<float> Bench::ForwardGradients() {
  Forward();
  Backward();
  return Gradients();
}

std::vector<float> Bench::Logits() {
  std::vector<float> logits(model_.batch_size * model::ElementCount(model_.layers.back().out));
  network_->ReadLogits(absl::MakeSpan(logits));
  return logits;
}

std::vector<float> Bench::Train(const OptimizerOptions& options, int steps) {
  const auto optimizer = *device_->MakeOptimizer(options, layout_, values(), gradients());
  for (int step = 0; step < steps; ++step) {
    Forward(Mode::kTrain, step);
    Backward(1.0f / static_cast<float>(labels()));
    optimizer->Step({.number = step + 1});
  }
  return Values();
}

std::vector<float> Bench::TrainBySgd(int steps) {
  return Train({.update = SgdOptions{0.1f, 0.9f, 1e-4f}}, steps);
}

std::vector<float> Bench::TrainByAdamW(int steps) {
  return Train({.update = AdamWOptions{.learning_rate = 0.02}}, steps);
}

double Bench::Slope(int64_t i, float step) {
  const absl::Span<float> place = values().subspan(i, 1);
  float value = 0;
  device_->Read(place, absl::MakeSpan(&value, 1));
  const auto loss_at = [&](float at) {
    device_->Write(absl::MakeConstSpan(&at, 1), place);
    return Forward().loss_sum;
  };
  const double up = loss_at(value + step);
  const double down = loss_at(value - step);
  device_->Write(absl::MakeConstSpan(&value, 1), place);
  return (up - down) / (2 * step);
}

void Bench::ExpectGradientsAreSlopes(float step, double tolerance) {
  const std::vector<float> gradients = ForwardGradients();
  for (const Parameter& p : layout_.Trained().parameters) {
    for (int64_t i = p.offset; i < p.offset + p.size; i += 1 + p.size / 7) {
      EXPECT_NEAR(gradients[i], Slope(i, step), tolerance + tolerance * std::abs(gradients[i]))
          << p.name << " at " << i - p.offset;
    }
  }
}

void Bench::SetValues(absl::Span<const float> values) { device_->Write(values, values_->span()); }

void Bench::SetGradients(float value) {
  device_->Write(std::vector<float>(layout_.size, value), gradients_->span());
}

std::vector<float> Bench::Read(Array& array) const {
  std::vector<float> host(layout_.size);
  device_->Read(array.span(), absl::MakeSpan(host));
  return host;
}

Bench::Model ImageModel(const std::vector<model::LayerSpec>& specs, const model::Shape& image) {
  const auto layers = *model::CheckShapes(model::WithOutputs(specs, 10), image);
  return {.layers = layers,
          .batch_size = kBatchSize,
          .classes = static_cast<int>(model::ElementCount(layers.back().out))};
}

Bench::Model TextModel(const std::vector<model::LayerSpec>& specs) {
  return {.layers = *model::CheckLanguageModel(specs, kTokens, kVocabulary),
          .batch_size = kTextBatch,
          .classes = kVocabulary,
          .of_tokens = true};
}

Bench::Model ModelOf(const LayerCase& layer_case) {
  return layer_case.of_tokens ? TextModel(layer_case.layers)
                              : ImageModel(layer_case.layers, layer_case.in);
}

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

std::vector<model::LayerSpec> SmallGpt() {
  return model::Gpt({.blocks = 2, .heads = 2, .features = 8});
}

}  // namespace dp::engine
