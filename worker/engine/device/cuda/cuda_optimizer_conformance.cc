#include "worker/engine/device/cuda/cuda_optimizer.h"

#include <cmath>

#include "worker/engine/device/cuda/cuda_testing.h"

namespace dp::engine::cuda {
namespace {

// Two matrices and their biases, with gaps.
ParameterLayout SomeLayout() {
  ParameterLayout layout;
  const auto append = [&](model::Shape shape) {
    const int64_t size = model::ElementCount(shape);
    layout.parameters.push_back({.shape = std::move(shape), .offset = layout.size, .size = size});
    layout.size += (size + 15) / 16 * 16;
  };
  append({10});
  append({10, 301});
  append({301});
  append({301, 17});
  return layout;
}

// Random values, and zeroes in the gaps.
std::vector<float> Filled(const ParameterLayout& layout, uint64_t seed) {
  const std::vector<float> random = RandomValues<bf16>(layout.size, seed);
  std::vector<float> values(layout.size);
  for (const Parameter& p : layout.parameters) {
    std::copy_n(random.begin() + p.offset, p.size, values.begin() + p.offset);
  }
  return values;
}

TEST_F(CudaTest, SgdHasTheCpusBits) {
  const SgdOptions options = {.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 1e-3f};
  constexpr int64_t kSize = 5003;
  std::vector<float> values = RandomValues<float>(kSize, 1);
  std::vector<float> velocity(kSize);
  const auto device_values = OnDevice<float>(values);
  const auto device_velocity = OnDevice<float>(velocity);
  const auto rate = OnDevice<float>({options.learning_rate});
  DeviceArray<bf16> rounded(kSize);
  for (int step = 0; step < 10; ++step) {
    const auto gradients = RandomValues<float>(kSize, 100 + step);
    const auto device_gradients = OnDevice<float>(gradients);
    SgdStep(options, gradients, absl::MakeSpan(velocity), absl::MakeSpan(values));
    Finish(SgdUpdate(
        stream(), options, rate.data(), kSize,
        {device_gradients.data(), device_velocity.data(), device_values.data(), rounded.data()}));
  }
  EXPECT_EQ(device_values.Read(), values);
  EXPECT_EQ(device_velocity.Read(), velocity);
  EXPECT_EQ(rounded.ReadFloats(), RoundedValues<bf16>(values));
}

template <typename T>
class CudaAdamWTest : public CudaPrecisionTest<T> {
 protected:
  const AdamWOptions options_ = {.learning_rate = 3e-3, .beta2 = 0.95, .weight_decay = 0.1};
  const ParameterLayout layout_ = SomeLayout();
};
TYPED_TEST_SUITE(CudaAdamWTest, Precisions);

// Of gradients in T; in parts, as buckets do it.
TYPED_TEST(CudaAdamWTest, HasTheCpusBits) {
  const int64_t size = this->layout_.size;
  std::vector<float> values = Filled(this->layout_, 1);
  std::vector<float> first(size), second(size);
  const auto device_values = OnDevice<float>(values);
  const auto device_first = OnDevice<float>(first);
  const auto device_second = OnDevice<float>(second);
  DeviceArray<bf16> rounded(size);
  const DeviceArray<uint32_t> decays(DecayBlocks(this->options_, this->layout_));
  const DeviceArray<double> rate(std::vector<double>{this->options_.learning_rate});
  const DeviceArray<int64_t> step(std::vector<int64_t>{1});
  DeviceArray<AdamWFactors> factors(1);
  const int64_t border = this->layout_.parameters[2].offset;
  for (int number = 1; number <= 10; ++number) {
    const std::vector<float> gradients = Filled(this->layout_, 100 + number);
    AdamWStep(this->options_, number, this->layout_, gradients,
              {absl::MakeSpan(first), absl::MakeSpan(second)}, absl::MakeSpan(values));
    const auto device_gradients = OnDevice<TypeParam>(gradients);
    const AdamWArrays<TypeParam> arrays = {device_gradients.data(), device_first.data(),
                                           device_second.data(), device_values.data(),
                                           rounded.data()};
    this->Finish(
        PrepareAdamW(this->stream(), this->options_, rate.data(), step.data(), factors.data()));
    for (const UpdateRange range : {UpdateRange{0, border}, UpdateRange{border, size - border}}) {
      this->Finish(AdamWUpdate(this->stream(), factors.data(), decays.data(), range, arrays));
    }
  }
  EXPECT_EQ(step.Read()[0], 11);
  EXPECT_EQ(device_values.Read(), values);
  EXPECT_EQ(device_first.Read(), first);
  EXPECT_EQ(device_second.Read(), second);
  EXPECT_EQ(rounded.ReadFloats(), RoundedValues<bf16>(values));
}

// Each value is one of the two around what the CPU gives from it, the same whatever the parts, and
// the mean error is small.
TYPED_TEST(CudaAdamWTest, RoundsToANeighbour) {
  const int64_t size = this->layout_.size;
  std::vector<float> values = Filled(this->layout_, 1);
  const std::vector<float> gradients = Filled(this->layout_, 2);
  std::vector<float> first(size), second(size);
  const auto device_values = OnDevice<bf16>(values);
  const auto device_first = OnDevice<float>(first);
  const auto device_second = OnDevice<float>(second);
  const auto device_gradients = OnDevice<TypeParam>(gradients);
  const DeviceArray<uint32_t> decays(DecayBlocks(this->options_, this->layout_));
  const DeviceArray<AdamWFactors> factors(
      std::vector<AdamWFactors>{AdamWFactorsOf(this->options_, this->options_.learning_rate, 1)});
  const AdamWRoundedArrays<TypeParam> arrays = {device_gradients.data(), device_first.data(),
                                                device_second.data(), device_values.data()};
  const int64_t border = this->layout_.parameters[2].offset;
  for (const UpdateRange range : {UpdateRange{border, size - border}, UpdateRange{0, border}}) {
    this->Finish(
        AdamWUpdateRounded(this->stream(), factors.data(), decays.data(), 7, range, arrays));
  }
  AdamWStep(this->options_, 1, this->layout_, gradients,
            {absl::MakeSpan(first), absl::MakeSpan(second)}, absl::MakeSpan(values));
  const std::vector<float> rounded = device_values.ReadFloats();
  double error = 0;
  for (int64_t i = 0; i < size; ++i) {
    ASSERT_LE(std::abs(rounded[i] - values[i]), std::abs(values[i]) / 128) << "element " << i;
    error += rounded[i] - values[i];
  }
  EXPECT_LT(std::abs(error) / size, 1e-4);
}

}  // namespace
}  // namespace dp::engine::cuda
