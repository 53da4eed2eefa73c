#pragma once

#include "worker/engine/data/dataset.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

// Images whose bright row determines the class, with deterministic noise.
class StripedImages final : public engine::Dataset {
 public:
  explicit StripedImages(int64_t size) : size_(size) {}

  int64_t size() const override { return size_; }
  const model::Shape& sample_shape() const override { return shape_; }
  int classes() const override { return 4; }
  void Gather(absl::Span<const int64_t> samples, absl::Span<float> images,
              absl::Span<int32_t> labels) const override {
    for (size_t i = 0; i < samples.size(); ++i) {
      labels[i] = static_cast<int32_t>(samples[i] % 4);
      for (size_t pixel = 0; pixel < 64; ++pixel) {
        const bool bright = pixel / 16 == static_cast<size_t>(labels[i]);
        const int64_t noise = (samples[i] * 31 + static_cast<int64_t>(pixel) * 17) % 23;
        images[i * 64 + pixel] = (bright ? 1.0f : 0.0f) + static_cast<float>(noise) / 23.0f;
      }
    }
  }

 private:
  const int64_t size_;
  const model::Shape shape_ = {1, 8, 8};
};

// A small CNN for these images, with two epochs.
inline TrainingPlan APlan() {
  TrainingPlan plan;
  plan.seed = 3;
  plan.epochs = 2;
  plan.global_batch_size = 12;
  plan.layers = {{.name = "", .kind = model::Conv2d{.out = 4, .kernel = 3, .padding = 1}},
                 {.name = "", .kind = model::Relu{}},
                 {.name = "", .kind = model::MaxPool2d{.kernel = 2}},
                 {.name = "", .kind = model::Flatten{}},
                 {.name = "", .kind = model::Linear{.out = 4}}};
  plan.optimizer = engine::SgdOptions{.learning_rate = 0.05f, .momentum = 0.9f};
  return plan;
}

}  // namespace dp::trainer
