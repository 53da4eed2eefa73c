// Layers for tests, written as a user would. They are a twin of a built-in layer, a whole model,
// one with a running statistic, and one that fails as it is told.

#include <dp/plugin.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using dp::plugin::Backward;
using dp::plugin::Config;
using dp::plugin::Forward;
using dp::plugin::Initial;
using dp::plugin::Parameter;
using dp::plugin::Place;
using dp::plugin::Shape;

// The sum of products in sixteen lanes, as the built-in layer sums.
float dot(const float* a, const float* b, std::size_t size) {
  constexpr std::size_t kLanes = 16;
  float lanes[kLanes] = {};
  for (std::size_t i = 0; i < size; ++i) lanes[i % kLanes] += a[i] * b[i];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// As the built-in rmsNorm, to the last bit.
class RmsNorm : public dp::plugin::Layer {
 public:
  RmsNorm(const Config& config, const Place& place)
      : shape_(place.input),
        features_(static_cast<std::size_t>(shape_.back())),
        epsilon_(static_cast<float>(config.number("epsilon", 1e-6))) {
    config.expect_only({"epsilon"});
    if (!(epsilon_ > 0)) throw std::invalid_argument("config.epsilon must be above 0");
  }

  Shape output() const override { return shape_; }
  std::vector<Parameter> parameters() const override {
    return {{"weight", {shape_.back()}, Initial::constant(1)}};
  }

  void forward(const Forward& batch) override {
    inverse_.resize(batch.input.size() / features_);
    for (std::size_t row = 0; row < inverse_.size(); ++row) {
      const float* x = batch.input.data() + row * features_;
      float* y = batch.output.data() + row * features_;
      const float square = dot(x, x, features_) / static_cast<float>(features_);
      inverse_[row] = 1 / std::sqrt(square + epsilon_);
      for (std::size_t i = 0; i < features_; ++i)
        y[i] = x[i] * inverse_[row] * batch.parameters[0][i];
    }
  }

  void backward(const Backward& batch) override {
    std::fill(batch.gradients[0].begin(), batch.gradients[0].end(), 0.0f);
    std::vector<float> weighted(features_);
    for (std::size_t row = 0; row < inverse_.size(); ++row) {
      const float* x = batch.input.data() + row * features_;
      const float* gradient = batch.output_gradient.data() + row * features_;
      const float r = inverse_[row];
      for (std::size_t i = 0; i < features_; ++i) batch.gradients[0][i] += gradient[i] * x[i] * r;
      if (batch.input_gradient.empty()) continue;
      for (std::size_t i = 0; i < features_; ++i)
        weighted[i] = gradient[i] * batch.parameters[0][i];
      const float pull =
          r * r * r / static_cast<float>(features_) * dot(weighted.data(), x, features_);
      float* to = batch.input_gradient.data() + row * features_;
      for (std::size_t i = 0; i < features_; ++i) to[i] = r * weighted[i] - x[i] * pull;
    }
  }

 private:
  const Shape shape_;
  const std::size_t features_;
  const float epsilon_;
  std::vector<float> inverse_;  // of each row of the last forward
};

// A whole model: two linear layers with a tanh between them.
class Mlp : public dp::plugin::Layer {
 public:
  Mlp(const Config& config, const Place& place)
      : in_(size_of(place.input)),
        hidden_(static_cast<std::size_t>(config.integer("hidden"))),
        out_(static_cast<std::size_t>(config.integer("classes"))) {}

  Shape output() const override { return {static_cast<std::int64_t>(out_)}; }
  std::vector<Parameter> parameters() const override {
    const auto in = static_cast<std::int64_t>(in_), hidden = static_cast<std::int64_t>(hidden_);
    const auto bound = [](std::size_t inputs) {
      return Initial::uniform(1 / std::sqrt(static_cast<float>(inputs)));
    };
    return {{"up", {hidden, in}, bound(in_)},
            {"up_bias", {hidden}, bound(in_)},
            {"down", {static_cast<std::int64_t>(out_), hidden}, Initial::normal(0.1f)}};
  }

  void forward(const Forward& batch) override {
    activations_.resize(static_cast<std::size_t>(batch.samples) * hidden_);
    for (std::size_t s = 0; s < static_cast<std::size_t>(batch.samples); ++s) {
      const float* x = batch.input.data() + s * in_;
      float* a = activations_.data() + s * hidden_;
      for (std::size_t h = 0; h < hidden_; ++h) {
        a[h] =
            std::tanh(dot(x, batch.parameters[0].data() + h * in_, in_) + batch.parameters[1][h]);
      }
      for (std::size_t o = 0; o < out_; ++o) {
        batch.output[s * out_ + o] = dot(a, batch.parameters[2].data() + o * hidden_, hidden_);
      }
    }
  }

  void backward(const Backward& batch) override {
    for (const std::span<float> gradient : batch.gradients) {
      std::fill(gradient.begin(), gradient.end(), 0.0f);
    }
    for (std::size_t s = 0; s < static_cast<std::size_t>(batch.samples); ++s) {
      const float* x = batch.input.data() + s * in_;
      const float* a = activations_.data() + s * hidden_;
      const float* g = batch.output_gradient.data() + s * out_;
      for (std::size_t h = 0; h < hidden_; ++h) {
        float of_a = 0;
        for (std::size_t o = 0; o < out_; ++o) {
          of_a += g[o] * batch.parameters[2][o * hidden_ + h];
          batch.gradients[2][o * hidden_ + h] += g[o] * a[h];
        }
        const float of_sum = of_a * (1 - a[h] * a[h]);
        batch.gradients[1][h] += of_sum;
        for (std::size_t i = 0; i < in_; ++i) batch.gradients[0][h * in_ + i] += of_sum * x[i];
      }
    }
  }

 private:
  static std::size_t size_of(const Shape& shape) {
    std::size_t size = 1;
    for (const std::int64_t extent : shape) size *= static_cast<std::size_t>(extent);
    return size;
  }

  const std::size_t in_, hidden_, out_;
  std::vector<float> activations_;
};

// Takes the running mean of all values away from each value.
class Center : public dp::plugin::Layer {
 public:
  Center(const Config&, const Place& place) : shape_(place.input) {}

  Shape output() const override { return shape_; }
  std::vector<Parameter> parameters() const override {
    return {{.name = "mean", .shape = {1}, .momentum = 0.5f}};
  }
  void forward(const Forward& batch) override {
    for (std::size_t i = 0; i < batch.input.size(); ++i) {
      batch.output[i] = batch.input[i] - batch.parameters[0][0];
    }
  }
  void backward(const Backward& batch) override {
    std::copy(batch.output_gradient.begin(), batch.output_gradient.end(),
              batch.input_gradient.begin());
    float sum = 0;
    for (const float value : batch.input) sum += value;
    batch.gradients[0][0] = batch.input.empty() ? 0 : sum / static_cast<float>(batch.input.size());
  }

 private:
  const Shape shape_;
};

// Passes values on, and fails at the place that `at` names. In training, after so many steps.
class Faulty : public dp::plugin::Layer {
 public:
  Faulty(const Config& config, const Place& place)
      : shape_(place.input), at_(config.text("at")), after_(config.integer("after", 0)) {
    if (at_ == "make") throw std::runtime_error("told to fail");
  }

  Shape output() const override { return at_ == "shape" ? Shape{0} : shape_; }
  std::vector<Parameter> parameters() const override {
    if (at_ == "names") return {{"a", {1}}, {"a", {1}}};
    if (at_ == "name") return {{"a.b", {1}}};
    return {};
  }
  void forward(const Forward& batch) override {
    if (batch.training) ++steps_;
    if (fails("forward")) throw std::runtime_error("told to fail");
    if (fails("unknown")) throw 7;
    std::copy(batch.input.begin(), batch.input.end(), batch.output.begin());
    if (fails("nan")) batch.output[0] = std::numeric_limits<float>::quiet_NaN();
  }
  void backward(const Backward& batch) override {
    if (fails("backward")) throw std::runtime_error("told to fail");
    std::copy(batch.output_gradient.begin(), batch.output_gradient.end(),
              batch.input_gradient.begin());
    if (fails("nan gradient")) batch.input_gradient[0] = std::numeric_limits<float>::quiet_NaN();
  }

 private:
  bool fails(const std::string& at) const { return at == at_ && steps_ > after_; }

  const Shape shape_;
  const std::string at_;
  const std::int64_t after_;
  std::int64_t steps_ = 0;
};

}  // namespace

DP_PLUGIN(dp::plugin::layer<RmsNorm>("rmsNorm"), dp::plugin::layer<Mlp>("mlp"),
          dp::plugin::layer<Center>("center"), dp::plugin::layer<Faulty>("faulty"))
