// Functions of the features of each row, in plain loops.

#include <algorithm>
#include <cmath>
#include <vector>

#include "worker/engine/device/cpu/cpu_layer.h"

namespace dp::engine {
namespace {

// The sum of products in a fixed order, which a compiler can turn into vector instructions.
float Dot(const float* __restrict a, const float* __restrict b, int64_t size) {
  constexpr int64_t kLanes = 16;
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] += a[i + k] * b[i + k];
  }
  for (; i < size; ++i) lanes[i % kLanes] += a[i] * b[i];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// x / sqrt(mean of x² + epsilon) w, over the features of each row.
class CpuRmsNorm : public CpuLayer {
 public:
  CpuRmsNorm(const CpuLayerInput& input, const model::RmsNorm& norm)
      : views_(input.options.parameters),
        epsilon_(static_cast<float>(norm.epsilon)),
        features_(input.layer.in.back()),
        in_(input.cpu, input.in, PlainDesc(input.batch_size, input.layer.in)),
        inverse_(input.batch_size * model::ElementCount(input.layer.in) / features_),
        weighted_(features_) {
    out_ = MakeActivation(input.cpu, PlainDesc(input.batch_size, input.layer.in), true);
  }

  void Forward(const Batch&, Mode) override {
    in_values_ = in_.Fetch();
    for (size_t row = 0; row < inverse_.size(); ++row) {
      const float* __restrict x = in_values_ + row * features_;
      float* __restrict y = Floats(out_.value) + row * features_;
      const float square = Dot(x, x, features_) / static_cast<float>(features_);
      inverse_[row] = 1 / std::sqrt(square + epsilon_);
      for (int64_t i = 0; i < features_; ++i) y[i] = x[i] * inverse_[row] * views_.weight[i];
    }
  }

  void Backward(const std::function<void()>& parameters_ready) override {
    std::fill_n(views_.weight_gradient, features_, 0.0f);
    for (size_t row = 0; row < inverse_.size(); ++row) {
      const float* __restrict x = in_values_ + row * features_;
      const float* __restrict gradient = Floats(out_.gradient) + row * features_;
      float* __restrict sum = views_.weight_gradient;
      for (int64_t i = 0; i < features_; ++i) sum[i] += gradient[i] * x[i] * inverse_[row];
      if (in_.gradient() != nullptr) InputGradient(row);
    }
    parameters_ready();
    in_.Store();
  }

 private:
  // With r the inverse and n features: r (g w) - x r³ / n Σ(g w x).
  void InputGradient(size_t row) {
    const float* __restrict x = in_values_ + row * features_;
    const float* __restrict gradient = Floats(out_.gradient) + row * features_;
    float* __restrict to = in_.gradient() + row * features_;
    for (int64_t i = 0; i < features_; ++i) weighted_[i] = gradient[i] * views_.weight[i];
    const float r = inverse_[row];
    const float pull =
        r * r * r / static_cast<float>(features_) * Dot(weighted_.data(), x, features_);
    for (int64_t i = 0; i < features_; ++i) to[i] = r * weighted_[i] - x[i] * pull;
  }

  const ParameterViews views_;
  const float epsilon_;
  const int64_t features_;
  FormattedInput in_;
  const float* in_values_ = nullptr;  // of the last Forward
  std::vector<float> inverse_;        // 1 / sqrt(mean of x² + epsilon) of each row
  std::vector<float> weighted_;       // scratch: a row of gradients times weights
};

// exp(x) / sum of exp(x), over the features of each row.
class CpuSoftmax : public CpuLayer {
 public:
  explicit CpuSoftmax(const CpuLayerInput& input)
      : features_(input.layer.in.back()),
        rows_(input.batch_size * model::ElementCount(input.layer.in) / features_),
        in_(input.cpu, input.in, PlainDesc(input.batch_size, input.layer.in)) {
    out_ = MakeActivation(input.cpu, PlainDesc(input.batch_size, input.layer.in),
                          input.in.needs_gradient());
  }

  void Forward(const Batch&, Mode) override {
    const float* x = in_.Fetch();
    float* y = Floats(out_.value);
    for (int64_t row = 0; row < rows_; ++row, x += features_, y += features_) {
      const float largest = *std::max_element(x, x + features_);
      float sum = 0;
      for (int64_t i = 0; i < features_; ++i) {
        y[i] = std::exp(x[i] - largest);
        sum += y[i];
      }
      for (int64_t i = 0; i < features_; ++i) y[i] /= sum;
    }
  }

  void Backward(const std::function<void()>&) override {
    float* to = in_.gradient();
    if (to == nullptr) return;
    const float* y = Floats(out_.value);
    const float* gradient = Floats(out_.gradient);
    for (int64_t row = 0; row < rows_; ++row) {
      const float mean = Dot(y, gradient, features_);
      for (int64_t i = 0; i < features_; ++i) to[i] = y[i] * (gradient[i] - mean);
      y += features_;
      gradient += features_;
      to += features_;
    }
    in_.Store();
  }

 private:
  const int64_t features_;
  const int64_t rows_;
  FormattedInput in_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::RmsNorm& norm, const CpuLayerInput& input) {
  return std::make_unique<CpuRmsNorm>(input, norm);
}

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Softmax&, const CpuLayerInput& input) {
  return std::make_unique<CpuSoftmax>(input);
}

}  // namespace dp::engine
