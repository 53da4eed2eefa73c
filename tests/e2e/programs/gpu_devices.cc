// A program of a user whose process has several GPUs. In tests their memory is the host's, and they
// work when they are called, so loops stand in for kernels. The arguments are the devices.
#include <dp/data_parallel.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

float* Floats(dp::Tensor& tensor) { return static_cast<float*>(tensor.elements().data); }

// output = weight * input.
class Scale : public dp::ReplicableModule {
 public:
  explicit Scale(const std::string& device)
      : weight(dp::zeros({1}, dp::DataType::kFloat32, device)), gradient(weight) {}

  std::vector<dp::Parameter> parameters() override {
    return {{"weight", {1}, weight.elements(), gradient.elements()}};
  }
  std::unique_ptr<dp::ReplicableModule> replicate() const override {
    return std::make_unique<Scale>(*this);
  }
  std::unique_ptr<dp::ReplicableModule> replicate_on(const std::string& device) const override {
    auto copy = std::make_unique<Scale>(device);
    copy->weight = weight.to(device);
    return copy;
  }
  dp::Tensor forward(const dp::Arguments& inputs) override {
    input_ = std::get<dp::Tensor>(inputs[0]);
    dp::Tensor output = dp::empty(input_.shape(), input_.type(), "cuda");
    for (size_t i = 0; i < input_.count(); ++i)
      Floats(output)[i] = *Floats(weight) * Floats(input_)[i];
    return output;
  }
  void backward(const dp::Tensor& output_gradient) override {
    dp::Tensor slopes = output_gradient;
    for (size_t i = 0; i < input_.count(); ++i)
      *Floats(gradient) += Floats(slopes)[i] * Floats(input_)[i];
  }

  dp::Tensor weight, gradient;

 private:
  dp::Tensor input_;
};

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> devices(argv + 1, argv + argc);
  Scale model(devices.empty() ? "cuda:0" : devices[0]);
  *Floats(model.weight) = 2;
  dp::DataParallel parallel(model, {.device_ids = devices});
  for (const std::string& device : parallel.device_ids())
    std::printf("device %s\n", device.c_str());
  const dp::Tensor batch({3, 1}, std::vector<float>{1, 2, 3});
  const dp::Tensor output = parallel.forward({batch});
  const dp::Tensor host = output.to("cpu");
  const auto values = host.values<float>();
  std::printf("output %s", output.device().c_str());
  for (const float value : values) std::printf(" %g", static_cast<double>(value));
  parallel.backward(batch);
  std::printf("\ngradient %g\n", static_cast<double>(*Floats(model.gradient)));
} catch (const dp::DistError& error) {
  std::printf("%d %s\n", static_cast<int>(error.kind()), error.what());
  return 1;
}
