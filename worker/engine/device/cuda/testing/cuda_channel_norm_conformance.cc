#include <algorithm>

#include "worker/engine/device/cuda/images/cuda_channel_norm.h"
#include "worker/engine/device/cuda/testing/cuda_testing.h"

namespace dp::engine::cuda {
namespace {

template <typename T>
using CudaChannelNormTest = CudaPrecisionTest<T>;
TYPED_TEST_SUITE(CudaChannelNormTest, Precisions);

constexpr double kEpsilon = 1e-5;

// The parameters of a batch norm, and its gradients, on the host.
struct Parameters {
  explicit Parameters(int64_t channels)
      : weight(RandomValues<float>(channels, 5)),
        bias(RandomValues<float>(channels, 6)),
        running_mean(RandomValues<float>(channels, 7)),
        running_variance(channels, 0.5f),
        weight_gradient(channels),
        bias_gradient(channels),
        mean(channels),
        variance(channels) {}

  ParameterViews views() {
    return {weight.data(),        bias.data(),         weight_gradient.data(),
            bias_gradient.data(), running_mean.data(), running_variance.data(),
            mean.data(),          variance.data()};
  }

  std::vector<float> weight, bias, running_mean, running_variance;
  std::vector<float> weight_gradient, bias_gradient, mean, variance;
};

// The same on the device, with the arrays of one norm.
template <typename T>
struct Arrays {
  explicit Arrays(const ChannelNormShape& shape)
      : mean(shape.channels),
        deviation(shape.channels),
        variance(shape.channels),
        weight_gradient(shape.channels),
        bias_gradient(shape.channels),
        workspace(ChannelNormWorkspace(shape)),
        out(shape.rows() * shape.channels),
        in_gradient(shape.rows() * shape.channels) {}

  ChannelMoments moments() { return {mean.data(), deviation.data(), variance.data()}; }

  DeviceArray<float> mean, deviation, variance, weight_gradient, bias_gradient, workspace;
  DeviceArray<T> out, in_gradient;
};

const ChannelNormShape kShapes[] = {{3, 49, 16}, {2, 1, 5}, {5, 30, 3}, {4, 700, 72}, {6, 1, 640}};

// Values around `center`.
template <typename T>
std::vector<float> ValuesAround(float center, int64_t size) {
  std::vector<float> values = RandomValues<T>(size, 1);
  for (float& value : values) value += center;
  return RoundedValues<T>(values);
}

TYPED_TEST(CudaChannelNormTest, TrainsAsTheCpu) {
  for (const ChannelNormShape& shape : kShapes) {
    for (const bool relu : {false, true}) {
      const auto last = [&](const std::vector<float>& values) {
        return ChannelsLast(values, shape.channels, shape.places);
      };
      const int64_t size = shape.rows() * shape.channels;
      // Far from 0 a sum of squares would lose digits. Behind a ReLU, results near 0 would then
      // round to the other side.
      const auto in = ValuesAround<TypeParam>(relu ? 0 : 20, size);
      const auto out_gradient = RandomValues<TypeParam>(size, 2);
      Parameters host(shape.channels);
      const model::Shape image = {shape.channels, shape.places, 1};
      const int count = static_cast<int>(shape.samples) - 1;  // the last sample is padding
      CpuTwin twin(
          model::BatchNorm(), image, image, static_cast<int>(shape.samples),
          {.parameters = host.views(), .relu = relu ? FusedRelu::kBoth : FusedRelu::kNone});
      const std::vector<float> out = twin.Forward(in, {.count = count});
      const std::vector<float> in_gradient = twin.Backward(out_gradient);

      const auto device_in = OnDevice<TypeParam>(last(in));
      const auto gradient = OnDevice<TypeParam>(last(out_gradient));
      const auto weight = OnDevice<float>(host.weight), bias = OnDevice<float>(host.bias);
      const StepInput* step = this->Step({.count = count, .gradient_scale = 0.5f});
      Arrays<TypeParam> arrays(shape);
      this->Finish(MeasureChannels(this->stream(), device_in.data(), shape, step, kEpsilon,
                                   arrays.workspace.data(), arrays.moments()));
      ExpectNear(arrays.mean.Read(), host.mean, 1e-5);
      ExpectNear(arrays.variance.Read(), host.variance, 1e-4);
      this->Finish(ChannelNormForward(this->stream(), device_in.data(),
                                      {weight.data(), bias.data(), relu}, arrays.moments(), shape,
                                      step, arrays.out.data()));
      ExpectNear(arrays.out.ReadFloats(), last(out), std::max(1e-4, Precision<TypeParam>()));
      this->Finish(ChannelNormBackward(
          this->stream(), device_in.data(), relu ? arrays.out.data() : nullptr, gradient.data(),
          weight.data(), arrays.moments(), shape, step, arrays.workspace.data(),
          {arrays.in_gradient.data(), arrays.weight_gradient.data(), arrays.bias_gradient.data()}));
      ExpectNear(arrays.bias_gradient.Read(), host.bias_gradient, 1e-3);
      ExpectNear(arrays.weight_gradient.Read(), host.weight_gradient, 1e-3);
      ExpectNear(arrays.in_gradient.ReadFloats(), last(in_gradient),
                 std::max(1e-3, Precision<TypeParam>()));

      DeviceArray<float> mean(shape.channels), variance(shape.channels);
      this->Finish(PassMoments(this->stream(), arrays.moments(), shape.channels, step, 3,
                               mean.data(), variance.data()));
      for (std::vector<float>* each : {&host.mean, &host.variance}) {
        for (float& value : *each) value *= 0.5f * static_cast<float>(3 * count);
      }
      ExpectNear(mean.Read(), host.mean, 1e-5);
      ExpectNear(variance.Read(), host.variance, 1e-4);
    }
  }
}

TYPED_TEST(CudaChannelNormTest, EvaluatesByTheRunningMoments) {
  const ChannelNormShape shape = {3, 10, 24};
  const int64_t size = shape.rows() * shape.channels;
  const auto in = RandomValues<TypeParam>(size, 1);
  Parameters host(shape.channels);
  const model::Shape image = {shape.channels, shape.places, 1};
  CpuTwin twin(model::BatchNorm(), image, image, 3, {.parameters = host.views()});
  const auto device_in = OnDevice<TypeParam>(ChannelsLast(in, shape.channels, shape.places));
  const auto weight = OnDevice<float>(host.weight), bias = OnDevice<float>(host.bias);
  const auto mean = OnDevice<float>(host.running_mean);
  const auto variance = OnDevice<float>(host.running_variance);
  Arrays<TypeParam> arrays(shape);
  this->Finish(TakeRunningMoments(this->stream(), mean.data(), variance.data(), shape.channels,
                                  kEpsilon, arrays.moments()));
  this->Finish(ChannelNormForward(this->stream(), device_in.data(),
                                  {weight.data(), bias.data(), false}, arrays.moments(), shape,
                                  nullptr, arrays.out.data()));
  const auto expected =
      ChannelsLast(twin.Forward(in, {.count = 1}, Mode::kEvaluate), shape.channels, shape.places);
  ExpectNear(arrays.out, expected);
}

TYPED_TEST(CudaChannelNormTest, WithoutASampleGradientsAreZero) {
  const ChannelNormShape shape = {2, 9, 16};
  const std::vector<float> zeroes(shape.channels);
  const auto in = OnDevice<TypeParam>(RandomValues<TypeParam>(shape.rows() * shape.channels, 1));
  const auto weight = OnDevice<float>(RandomValues<float>(shape.channels, 2));
  const StepInput* step = this->Step({.count = 0, .gradient_scale = 1});
  Arrays<TypeParam> arrays(shape);
  this->Finish(MeasureChannels(this->stream(), in.data(), shape, step, kEpsilon,
                               arrays.workspace.data(), arrays.moments()));
  EXPECT_EQ(arrays.mean.Read(), zeroes);
  EXPECT_EQ(arrays.variance.Read(), zeroes);
  const TypeParam* no_relu = nullptr;
  this->Finish(ChannelNormBackward(
      this->stream(), in.data(), no_relu, in.data(), weight.data(), arrays.moments(), shape, step,
      arrays.workspace.data(),
      {arrays.in_gradient.data(), arrays.weight_gradient.data(), arrays.bias_gradient.data()}));
  EXPECT_EQ(arrays.weight_gradient.Read(), zeroes);
  EXPECT_EQ(arrays.bias_gradient.Read(), zeroes);
  EXPECT_EQ(arrays.in_gradient.ReadFloats(), std::vector<float>(shape.rows() * shape.channels));
}

}  // namespace
}  // namespace dp::engine::cuda
