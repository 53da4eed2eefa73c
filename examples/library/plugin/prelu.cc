#include <dp/plugin.h>

#include <algorithm>
#include <span>
#include <vector>

// y = x where x is positive, else slope x. Each channel, the first axis, learns its own slope.
class Prelu : public dp::plugin::Layer {
 public:
  Prelu(const dp::plugin::Config& config, const dp::plugin::Place& place)
      : shape_(place.input), slope_(static_cast<float>(config.number("slope", 0.25))) {
    config.expect_only({"slope"});
    for (std::size_t axis = 1; axis < shape_.size(); ++axis) places_ *= shape_[axis];
  }

  dp::plugin::Shape output() const override { return shape_; }

  std::vector<dp::plugin::Parameter> parameters() const override {
    return {{"weight", {shape_[0]}, dp::plugin::Initial::constant(slope_)}};
  }

  void forward(const dp::plugin::Forward& batch) override {
    const std::span<const float> slopes = batch.parameters[0];
    for (std::size_t i = 0; i < batch.input.size(); ++i) {
      const float x = batch.input[i];
      batch.output[i] = x > 0 ? x : slopes[channel_of(i)] * x;
    }
  }

  void backward(const dp::plugin::Backward& batch) override {
    const std::span<const float> slopes = batch.parameters[0];
    const std::span<float> of_slopes = batch.gradients[0];
    std::fill(of_slopes.begin(), of_slopes.end(), 0.0f);
    for (std::size_t i = 0; i < batch.input.size(); ++i) {
      const float x = batch.input[i], gradient = batch.output_gradient[i];
      if (x <= 0) of_slopes[channel_of(i)] += gradient * x;
      if (batch.input_gradient.empty()) continue;  // no layer before this one learns
      batch.input_gradient[i] = x > 0 ? gradient : slopes[channel_of(i)] * gradient;
    }
  }

 private:
  std::size_t channel_of(std::size_t value) const {
    return value / static_cast<std::size_t>(places_) % static_cast<std::size_t>(shape_[0]);
  }

  const dp::plugin::Shape shape_;
  const float slope_;        // at the start
  std::int64_t places_ = 1;  // values of a channel
};

DP_PLUGIN(dp::plugin::layer<Prelu>("prelu"))
