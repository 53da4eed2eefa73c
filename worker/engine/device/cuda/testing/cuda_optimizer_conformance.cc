#include "worker/engine/device/cuda/kernels/cuda_optimizer.h"

#include <cmath>

#include "worker/engine/device/cuda/arrays/cuda_scale.h"
#include "worker/engine/device/cuda/kernels/cuda_launch.h"
#include "worker/engine/device/cuda/testing/cuda_testing.h"
#include "worker/engine/nn/clip_factor.h"
#include "worker/engine/nn/gradient_norm.h"
#include "worker/engine/nn/moving_average.h"

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

// Groups in the memory of the device.
class GroupsOnDevice {
 public:
  explicit GroupsOnDevice(const UpdateBlocks& blocks)
      : groups_(blocks.groups), of_blocks_(blocks.of_blocks) {}

  UpdateGroupsOnDevice get() const {
    return {groups_.data(), static_cast<int>(groups_.Read().size()), of_blocks_.data()};
  }

 private:
  const DeviceArray<UpdateGroup> groups_;
  const DeviceArray<uint8_t> of_blocks_;
};

// The factor of the gradients.
constexpr float kFactor = 0.7f;

using CudaStatisticsTest = CudaTest;

TEST_F(CudaStatisticsTest, AStepHasTheCpusBits) {
  ParameterLayout layout = SomeLayout();
  for (Parameter& p : layout.parameters) p.momentum = 0.1 * static_cast<double>(p.shape.size());
  std::vector<float> values = Filled(layout, 1);
  const std::vector<float> gradients = Filled(layout, 2);
  const auto device_values = OnDevice<float>(values), device_gradients = OnDevice<float>(gradients);
  const GroupsOnDevice groups(
      UpdateBlocksOf(layout, [](const Parameter& p) { return GroupOf(p, /*weight_decay=*/0); }));
  Finish(StepStatistics(stream(), groups.get(), {0, layout.size}, device_gradients.data(),
                        device_values.data()));
  engine::StepStatistics(layout, gradients, absl::MakeSpan(values));
  EXPECT_EQ(device_values.Read(), values);
}

class CudaSgdTest : public CudaTest, public ::testing::WithParamInterface<bool> {};

TEST_P(CudaSgdTest, HasTheCpusBits) {
  const SgdOptions options = {
      .learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 1e-3f, .nesterov = GetParam()};
  constexpr int64_t kSize = 5003;
  std::vector<float> values = RandomValues<float>(kSize, 1);
  std::vector<float> velocity(kSize);
  const auto device_values = OnDevice<float>(values);
  const auto device_velocity = OnDevice<float>(velocity);
  const DeviceArray<double> rate(std::vector<double>{options.learning_rate});
  const auto factor = OnDevice<float>({kFactor});
  const GroupsOnDevice groups({.groups = {{.weight_decay = options.weight_decay}},
                               .of_blocks = std::vector<uint8_t>(DivideUp(kSize, kUpdateBlock))});
  DeviceArray<bf16> rounded(kSize);
  for (int step = 0; step < 10; ++step) {
    // Updates two ranges, whose border moves.
    const int64_t first = step * 304;
    const auto gradients = RandomValues<float>(kSize, 100 + step);
    const auto device_gradients = OnDevice<float>(gradients);
    SgdStep(options, gradients, absl::MakeSpan(velocity), absl::MakeSpan(values), kFactor);
    for (const ValueRange range : {ValueRange{first, kSize - first}, ValueRange{0, first}}) {
      Finish(SgdUpdate(stream(), options, groups.get(), rate.data(), range,
                       {device_gradients.data(), factor.data(), device_velocity.data(),
                        device_values.data(), rounded.data()}));
    }
  }
  EXPECT_EQ(device_values.Read(), values);
  EXPECT_EQ(device_velocity.Read(), velocity);
  EXPECT_EQ(rounded.ReadFloats(), RoundedValues<bf16>(values));
}

INSTANTIATE_TEST_SUITE_P(Nesterov, CudaSgdTest, ::testing::Bool());

class CudaAdamWTest : public CudaTest, public ::testing::WithParamInterface<bool> {
 protected:
  const AdamWOptions options_ = {
      .learning_rate = 3e-3, .beta2 = 0.95, .weight_decay = 0.1, .decay_in_gradient = GetParam()};
  // One parameter has options of its own.
  CudaAdamWTest() {
    layout_.parameters[1].options = {.learning_rate_factor = 0.3, .weight_decay = 0.5};
  }

  ParameterLayout layout_ = SomeLayout();
};

TEST_P(CudaAdamWTest, HasTheCpusBits) {
  const int64_t size = layout_.size;
  std::vector<float> values = Filled(layout_, 1);
  std::vector<float> first(size), second(size);
  const auto device_values = OnDevice<float>(values);
  const auto device_first = OnDevice<float>(first);
  const auto device_second = OnDevice<float>(second);
  DeviceArray<bf16> rounded(size);
  const GroupsOnDevice groups(UpdateBlocksOf(layout_, [&](const Parameter& parameter) {
    return GroupOf(parameter, WeightDecayOf(options_, parameter));
  }));
  const DeviceArray<double> rate(std::vector<double>{options_.learning_rate});
  const auto factor = OnDevice<float>({kFactor});
  const DeviceArray<int64_t> step(std::vector<int64_t>{1});
  DeviceArray<AdamWFactors> factors(groups.get().count);
  for (int number = 1; number <= 10; ++number) {
    const std::vector<float> gradients = Filled(layout_, 100 + number);
    AdamWStep(options_, number, layout_, gradients, {absl::MakeSpan(first), absl::MakeSpan(second)},
              absl::MakeSpan(values), kFactor);
    const auto device_gradients = OnDevice<float>(gradients);
    const AdamWArrays arrays = {device_gradients.data(), factor.data(),        device_first.data(),
                                device_second.data(),    device_values.data(), rounded.data()};
    Finish(
        PrepareAdamW(stream(), options_, groups.get(), rate.data(), step.data(), factors.data()));
    // Updates two ranges, which meet where a parameter begins.
    const int64_t first = layout_.parameters[number % layout_.parameters.size()].offset;
    Finish(AdamWUpdate(stream(), factors.data(), groups.get().of_blocks, {first, size - first},
                       arrays));
    Finish(AdamWUpdate(stream(), factors.data(), groups.get().of_blocks, {0, first}, arrays));
  }
  EXPECT_EQ(step.Read()[0], 11);
  EXPECT_EQ(device_values.Read(), values);
  EXPECT_EQ(device_first.Read(), first);
  EXPECT_EQ(device_second.Read(), second);
  EXPECT_EQ(rounded.ReadFloats(), RoundedValues<bf16>(values));
}

INSTANTIATE_TEST_SUITE_P(DecayInGradient, CudaAdamWTest, ::testing::Bool());

class CudaStoreDoubleTest : public CudaTest {};

TEST_F(CudaStoreDoubleTest, SetsOneNumber) {
  DeviceArray<double> numbers(std::vector<double>{1, 2});
  Finish(StoreDouble(stream(), 0.5, numbers.data()));
  EXPECT_EQ(numbers.Read(), (std::vector<double>{0.5, 2}));
}

class CudaAverageTest : public CudaTest {};

TEST_F(CudaAverageTest, HasTheCpusBits) {
  constexpr int64_t kSize = 1003;
  std::vector<float> average(kSize);
  const auto device_average = OnDevice<float>(average);
  const DeviceArray<double> rest(1);
  for (int step = 1; step <= 3; ++step) {
    const auto values = RandomValues<float>(kSize, step);
    const auto device_values = OnDevice<float>(values);
    UpdateAverage(0.9, /*first=*/step == 1, values, absl::MakeSpan(average));
    Finish(StoreDouble(stream(), step == 1 ? 1 : 1 - 0.9, rest.data()));
    for (const ValueRange range : {ValueRange{0, 304}, ValueRange{304, kSize - 304}}) {
      Finish(Average(stream(), rest.data(), range, device_values.data(), device_average.data()));
    }
  }
  EXPECT_EQ(device_average.Read(), average);
}

class CudaGradientNormTest : public CudaTest {};

// Several chunks, the last one short.
TEST_F(CudaGradientNormTest, HasTheCpusBits) {
  constexpr int64_t kSize = 3 * kNormChunk + 1234;
  const auto gradients = RandomValues<float>(kSize, 7);
  const float expected = GradientNorm({{0, kSize}}, gradients);
  const auto device_gradients = OnDevice<float>(gradients);
  DeviceArray<double> sums(4);
  DeviceArray<ClippedNorm> result(1);
  for (const double clip_norm : {0.25, 1e6}) {
    Finish(SumSquares(stream(), device_gradients.data(), kSize, kNormChunk, sums.data()));
    Finish(ClipNorm(stream(), sums.data(), 4, clip_norm, result.data()));
    EXPECT_EQ(result.Read()[0].norm, expected);
    EXPECT_EQ(result.Read()[0].factor, ClipFactor(clip_norm, expected));
  }
}

}  // namespace
}  // namespace dp::engine::cuda
