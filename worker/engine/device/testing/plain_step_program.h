#pragma once

#include <deque>
#include <vector>

#include "worker/engine/data/dataset.h"
#include "worker/engine/device/device.h"

namespace dp::engine {

// A step program made of the calls that it stands for, which tells results as late as a device
// does. With a data set it gathers by the samples' numbers. Not thread-safe.
class PlainStepProgram : public StepProgram {
 public:
  // `rows`: the network's batch size. `data` may be null.
  PlainStepProgram(Network& network, Optimizer& optimizer, int rows, const Dataset* data)
      : network_(network), optimizer_(optimizer), rows_(rows), data_(data) {}

  void Begin(const Input& input) override {
    Batch batch = input.batch;
    if (data_ != nullptr) batch = Gathered(batch);
    results_.push_back(network_.Forward(batch, Mode::kTrain));
    network_.Backward(input.scale, [](int) {});
    optimizer_.Step(input.number);
  }
  BatchResult End() override {
    const BatchResult result = results_.front();
    results_.pop_front();
    return result;
  }
  int under_way() const override { return static_cast<int>(results_.size()); }
  int under_way_max() const override { return 3; }
  bool has_data() const override { return data_ != nullptr; }

 private:
  Batch Gathered(const Batch& numbers) {
    samples_.assign(numbers.samples.begin(), numbers.samples.end());
    samples_.resize(rows_);
    images_.resize(rows_ * model::ElementCount(data_->sample_shape()));
    labels_.resize(rows_ * data_->labels_per_sample());
    data_->Gather(numbers.samples, absl::MakeSpan(images_), absl::MakeSpan(labels_));
    return {images_, labels_, samples_, numbers.count, numbers.draw};
  }

  Network& network_;
  Optimizer& optimizer_;
  const int rows_;
  const Dataset* const data_;
  std::vector<int64_t> samples_;
  std::vector<float> images_;
  std::vector<int32_t> labels_;
  std::deque<BatchResult> results_;  // of steps that are under way
};

}  // namespace dp::engine
