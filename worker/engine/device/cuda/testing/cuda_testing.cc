#include "worker/engine/device/cuda/testing/cuda_testing.h"
#include "base/overloaded.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "worker/engine/nn/generator.h"

namespace dp::engine::cuda {

template <>
float Rounded<float>(float value) {
  return value;
}
template <>
bf16 Rounded<bf16>(float value) {
  return __float2bfloat16_rn(value);
}
float Widened(float value) { return value; }
float Widened(bf16 value) { return __bfloat162float(value); }

template <typename T>
std::vector<float> RandomValues(int64_t size, uint64_t seed) {
  Generator generator(seed);
  std::vector<float> values(size);
  for (float& value : values) value = generator.Uniform(-1, 1);
  return RoundedValues<T>(std::move(values));
}
template std::vector<float> RandomValues<float>(int64_t, uint64_t);
template std::vector<float> RandomValues<bf16>(int64_t, uint64_t);

std::vector<float> ChannelsLast(const std::vector<float>& in, int64_t channels, int64_t places) {
  std::vector<float> out(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t in_sample = static_cast<int64_t>(i) % (channels * places);
    const int64_t place = in_sample % places * channels + in_sample / places;
    out[i - in_sample + place] = in[i];
  }
  return out;
}

void CudaTest::SetUp() {
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result != cudaSuccess) GTEST_SKIP() << "no CUDA device: " << cudaGetErrorString(result);
  if (devices == 0) GTEST_SKIP() << "no CUDA device";
  absl::StatusOr<Stream> stream = Stream::Make();
  ASSERT_TRUE(stream.ok()) << stream.status();
  stream_ = *std::move(stream);
}

void CudaTest::Finish(cudaError_t launched) {
  ASSERT_EQ(launched, cudaSuccess) << cudaGetErrorString(launched);
  const absl::Status done = stream_.Synchronize();
  ASSERT_TRUE(done.ok()) << done;
}

const StepInput* CudaTest::Step(const StepInput& step) {
  step_ = std::make_unique<DeviceArray<StepInput>>(std::vector<StepInput>{step});
  return step_->data();
}

void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected,
                double relative) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (float value : expected) largest = std::max<double>(largest, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i) {
    const double allowed = relative * (std::abs(expected[i]) + largest / 10);
    // Written so that a NaN fails.
    ASSERT_TRUE(std::abs(actual[i] - expected[i]) <= allowed)
        << "element " << i << " is " << actual[i] << ", expected " << expected[i];
  }
}

namespace {

std::unique_ptr<CpuLayer> MakeTwin(const CpuLayerInput& input) {
  return std::visit(
      Overloaded{[&](const auto& kind) { return MakeCpuLayer(kind, input); },
                 [](const model::Add&) -> std::unique_ptr<CpuLayer> { return nullptr; }},
      input.layer.kind);
}

}  // namespace

CpuTwin::CpuTwin(model::LayerKind kind, model::Shape in, model::Shape out, int batch_size,
                 const CpuLayerOptions& options)
    : layer_{"twin", std::move(kind), std::move(in), std::move(out)},
      batch_size_(batch_size),
      in_(MakeActivation(cpu_, PlainDesc(batch_size, layer_.in), true)),
      twin_(MakeTwin({cpu_, layer_, batch_size_, in_, options})) {}

std::vector<float> CpuTwin::Forward(const std::vector<float>& in, const Batch& batch, Mode mode) {
  std::copy(in.begin(), in.end(), Floats(in_.value));
  twin_->Forward(batch, mode);
  Formatted out(cpu_, twin_->out().value, PlainDesc(batch_size_, layer_.out));
  out.Fetch();
  const float* values = Floats(out.memory());
  return std::vector<float>(values, values + batch_size_ * model::ElementCount(layer_.out));
}

std::vector<float> CpuTwin::Backward(const std::vector<float>& out_gradient) {
  Formatted out(cpu_, twin_->out().gradient, PlainDesc(batch_size_, layer_.out));
  std::copy(out_gradient.begin(), out_gradient.end(), Floats(out.memory()));
  out.Store();
  twin_->Backward([] {});
  const float* values = Floats(in_.gradient);
  return std::vector<float>(values, values + batch_size_ * model::ElementCount(layer_.in));
}

}  // namespace dp::engine::cuda
