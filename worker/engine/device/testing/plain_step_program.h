#pragma once

#include <array>
#include <deque>
#include <vector>

#include "base/status.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/ddp/reducer.h"
#include "worker/engine/device/device.h"

namespace dp::engine {

// A step program made of the calls that it stands for. Reports results as late as a device does.
// Not thread-safe.
class PlainStepProgram : public StepProgram {
 public:
  // `rows`: the network's batch size. `gathers`: takes samples by their numbers, like a device that
  // holds the data set.
  PlainStepProgram(Device& device, const Parts& parts, int rows, bool gathers)
      : device_(device), parts_(parts), rows_(rows), gathers_(gathers) {}

  absl::Status Begin(const Input& input) override {
    const Batch batch = gathers_ ? Gathered(input.batch) : input.batch;
    const BatchResult result = parts_.network.Forward(batch, Mode::kTrain);
    const std::array<float, kStepTailSize> tail = {
        static_cast<float>(result.loss_sum) * input.scale, input.leaving ? 1.0f : 0.0f};
    device_.Write(tail, parts_.tail);
    DP_RETURN_IF_ERROR(Backward(input.scale));
    parts_.optimizer.Step(input.step);
    std::array<float, kStepTailSize> averaged = {};
    device_.Read(parts_.tail, absl::MakeSpan(averaged));
    tails_.push_back({.loss = averaged[0],
                      .leaving = averaged[1],
                      .gradient_norm = parts_.optimizer.gradient_norm()});
    return absl::OkStatus();
  }
  StepTail End() override {
    const StepTail tail = tails_.front();
    tails_.pop_front();
    return tail;
  }
  int under_way() const override { return static_cast<int>(tails_.size()); }
  int under_way_max() const override { return 3; }
  bool has_data() const override { return gathers_; }

 private:
  absl::Status Backward(float scale) {
    if (parts_.reducer == nullptr) {
      parts_.network.Backward(scale, [](int) {});
      return absl::OkStatus();
    }
    Reducer& reducer = *parts_.reducer;
    int parameters = 0;
    reducer.BeginBackward(Reducer::Sync::kYes);
    parts_.network.Backward(scale, [&](int index) {
      reducer.GradientReady(index);
      ++parameters;
    });
    reducer.GradientReady(parameters);  // the tail
    return reducer.EndBackward();
  }

  Batch Gathered(const Batch& numbers) {
    samples_.assign(numbers.samples.begin(), numbers.samples.end());
    samples_.resize(rows_);
    images_.resize(rows_ * model::ElementCount(parts_.data.sample_shape()));
    labels_.resize(rows_ * parts_.data.labels_per_sample());
    parts_.data.Gather(numbers.samples, absl::MakeSpan(images_), absl::MakeSpan(labels_));
    return {images_, labels_, samples_, numbers.count, numbers.draw};
  }

  Device& device_;
  const Parts parts_;
  const int rows_;
  const bool gathers_;
  std::vector<int64_t> samples_;
  std::vector<float> images_;
  std::vector<int32_t> labels_;
  std::deque<StepTail> tails_;  // of steps in flight
};

}  // namespace dp::engine
