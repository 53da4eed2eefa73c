#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "dp/data_parallel.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/testing/fake_cuda.h"
#include "worker/library/testing/linear_module.h"

namespace dp::library {

// LinearModule on a GPU, by kernels of a fake's default streams that have the same loops.
class GpuLinearModule : public distributed::ReplicableModule {
 public:
  using Tensor = distributed::Tensor;

  GpuLinearModule(engine::FakeCuda& gpus, const LinearModule& host, int64_t in, int64_t out,
                  const std::string& device)
      : weight(Tensor({out, in}, host.weight).to(device)),
        bias(Tensor({out}, host.bias).to(device)),
        weight_gradient(distributed::zeros({out, in}, distributed::DataType::kFloat32, device)),
        bias_gradient(distributed::zeros({out}, distributed::DataType::kFloat32, device)),
        gpus_(gpus),
        in_(in),
        out_(out) {}

  std::vector<distributed::Parameter> parameters() override {
    return {{"weight", weight.shape(), weight.elements(), weight_gradient.elements()},
            {"bias", bias.shape(), bias.elements(), bias_gradient.elements()}};
  }
  std::unique_ptr<ReplicableModule> replicate() const override { return nullptr; }
  std::unique_ptr<ReplicableModule> replicate_on(const std::string& device) const override {
    auto copy = std::make_unique<GpuLinearModule>(*this);
    for (Tensor* tensor :
         {&copy->weight, &copy->bias, &copy->weight_gradient, &copy->bias_gradient})
      *tensor = tensor->to(device);
    if (after_replicate) after_replicate(*copy);
    return copy;
  }

  Tensor forward(const distributed::Arguments& inputs) override {
    input_ = std::get<Tensor>(inputs.at(0));
    if (before_forward) before_forward(inputs);
    const int64_t samples = input_.shape().at(0);
    Tensor output =
        distributed::empty({samples, out_}, distributed::DataType::kFloat32, input_.device());
    gpus_.Enqueue(nullptr, [=, in = in_, out = out_, w = Of(weight), b = Of(bias), x = Of(input_),
                            y = Of(output)] {
      for (int64_t n = 0; n < samples; ++n)
        for (int64_t o = 0; o < out; ++o) {
          float sum = b[o];
          for (int64_t i = 0; i < in; ++i) sum += w[o * in + i] * x[n * in + i];
          y[n * out + o] = sum;
        }
    });
    return output;
  }
  void backward(const Tensor& output_gradient) override {
    gradient_ = output_gradient;
    gpus_.Enqueue(nullptr, [samples = input_.shape()[0], in = in_, out = out_, x = Of(input_),
                            dy = Of(gradient_), dw = Of(weight_gradient), db = Of(bias_gradient)] {
      for (int64_t n = 0; n < samples; ++n)
        for (int64_t o = 0; o < out; ++o) {
          db[o] += dy[n * out + o];
          for (int64_t i = 0; i < in; ++i) dw[o * in + i] += dy[n * out + o] * x[n * in + i];
        }
    });
  }
  // As an optimizer's kernel, which the host does not await.
  void SetWeight(std::vector<float> values) {
    gpus_.Enqueue(nullptr, [values = std::move(values), w = Of(weight)] {
      std::copy(values.begin(), values.end(), w);
    });
  }

  Tensor weight, bias, weight_gradient, bias_gradient;
  std::function<void(const distributed::Arguments&)> before_forward = {};
  std::function<void(GpuLinearModule&)> after_replicate = {};

 private:
  // As a program's cudaMemcpyAsync on the stream of the thread's GPU.
  Tensor CopyOf(const Tensor& from, const std::string& device) const {
    Tensor to = distributed::empty(from.shape(), from.type(), device);
    EXPECT_TRUE(gpus_
                    .CopyOnStream(static_cast<const uint8_t*>(from.elements().data),
                                  from.elements().bytes, static_cast<uint8_t*>(to.elements().data),
                                  nullptr)
                    .ok());
    return to;
  }
  static float* Of(Tensor& tensor) { return static_cast<float*>(tensor.elements().data); }

  engine::FakeCuda& gpus_;
  int64_t in_;
  int64_t out_;
  Tensor input_, gradient_;
};

}  // namespace dp::library
