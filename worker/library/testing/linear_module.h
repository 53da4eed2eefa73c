#pragma once

#include <any>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "dp/data_parallel.h"

namespace dp::library {

// output = input * weight^T + bias, for rows of `in` numbers, as torch.nn.Linear. Argument 0 is the
// input. It counts the samples of its forwards in a buffer.
class LinearModule : public distributed::ReplicableModule {
 public:
  LinearModule(int64_t in, int64_t out)
      : weight(in * out),
        bias(out),
        weight_gradient(in * out),
        bias_gradient(out),
        in_(in),
        out_(out) {}

  std::vector<distributed::Parameter> parameters() override {
    return {{"weight", {out_, in_}, weight, weight_gradient},
            {"bias", {out_}, bias, bias_gradient}};
  }
  std::vector<distributed::Buffer> buffers() override { return {{"seen", {1}, seen}}; }
  std::unique_ptr<ReplicableModule> replicate() const override {
    return std::make_unique<LinearModule>(*this);
  }
  distributed::Tensor forward(const distributed::Arguments& inputs) override {
    input_ = std::get<distributed::Tensor>(inputs.at(0));
    if (before_forward) before_forward(inputs);
    const auto rows = input_.values<float>();
    const int64_t samples = input_.shape().at(0);
    seen[0] += float(samples);
    std::vector<float> output;
    for (int64_t n = 0; n < samples; ++n)
      for (int64_t o = 0; o < out_; ++o) {
        float sum = bias[o];
        for (int64_t i = 0; i < in_; ++i) sum += weight[o * in_ + i] * rows[n * in_ + i];
        output.push_back(sum);
      }
    return {{samples, out_}, std::move(output)};
  }
  void backward(const distributed::Tensor& output_gradient) override {
    if (before_backward) before_backward(output_gradient);
    const auto rows = input_.values<float>();
    const auto gradient = output_gradient.values<float>();
    for (int64_t n = 0; n < input_.shape()[0]; ++n)
      for (int64_t o = 0; o < out_; ++o) {
        bias_gradient[o] += gradient[n * out_ + o];
        for (int64_t i = 0; i < in_; ++i)
          weight_gradient[o * in_ + i] += gradient[n * out_ + o] * rows[n * in_ + i];
      }
  }

  std::vector<float> weight, bias, weight_gradient, bias_gradient;
  std::vector<float> seen = {0};
  std::function<void(const distributed::Arguments&)> before_forward = {};
  std::function<void(const distributed::Tensor&)> before_backward = {};

 private:
  int64_t in_;
  int64_t out_;
  distributed::Tensor input_;
};

}  // namespace dp::library
