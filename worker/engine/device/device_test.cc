#include "worker/engine/device/device.h"

#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/device/testing/device_conformance.h"

namespace dp::engine {

DeviceUnderTest OneCpuThreadInBfloat16() {
  return {.name = "one CPU thread in bf16",
          .open = []() -> absl::StatusOr<std::unique_ptr<Device>> {
            if (!CpuHasBfloat16()) return absl::UnimplementedError("no AVX512-BF16");
            return OpenCpu(1);
          },
          .precision = Precision::kBfloat16,
          .tolerance = ToleranceOf(Precision::kBfloat16)};
}

INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformance, ::testing::Values(OneCpuThread()));
INSTANTIATE_TEST_SUITE_P(Cpu, LayerConformance, ::testing::Values(OneCpuThread()));
INSTANTIATE_TEST_SUITE_P(Cpu, LayerTwinConformance,
                         ::testing::Values(OneCpuThread(), OneCpuThreadInBfloat16()));
INSTANTIATE_TEST_SUITE_P(Cpu, BatchNormConformance, ::testing::Values(OneCpuThread()));
INSTANTIATE_TEST_SUITE_P(Cpu, LanguageModelConformance, ::testing::Values(OneCpuThread()));
INSTANTIATE_TEST_SUITE_P(Cpu, LanguageStepConformance,
                         ::testing::Values(OneCpuThread(), OneCpuThreadInBfloat16()));
INSTANTIATE_TEST_SUITE_P(Cpu, TwinConformance,
                         ::testing::Values(OneCpuThread(), OneCpuThreadInBfloat16()));

namespace {

std::vector<float> TrainOnTwoThreads() {
  const DeviceUnderTest two_threads = {.name = "two", .open = [] { return OpenCpu(2); }};
  return Bench(two_threads, ImageModel(SmallCnn(), kSmallImage)).TrainBySgd(20);
}

TEST(CpuDeviceTest, TheSameRunTwiceGivesTheSameBitsOnTwoThreads) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the OpenMP runtime's barriers are invisible to the thread sanitizer";
#endif
  EXPECT_EQ(TrainOnTwoThreads(), TrainOnTwoThreads());
}

// Images to predict: the loss and the measurements of a batch norm are means over samples, whatever
// the output's axes.
TEST(CpuDeviceTest, TargetsMayHaveSeveralAxes) {
  const auto layers = *model::CheckShapes({{{"norm", model::BatchNorm{}}}}, {2, 3, 4});
  const auto device = *OpenCpu(1);
  const ParameterLayout layout = LayOut(layers);
  const auto values = *device->Allocate(layout.size), gradients = *device->Allocate(layout.size);
  Initialize(layout, 0, values->span());
  const auto network = *device->Compile(layers, {.batch_size = 2, .loss = MseLoss()},
                                        values->span(), gradients->span());
  std::vector<float> images(48), targets(48, 1.0f);
  std::iota(images.begin(), images.end(), 0.0f);
  const std::vector<int64_t> samples = {0, 1};
  const BatchResult result = network->Forward(
      {.images = images, .samples = samples, .count = 2, .targets = targets}, Mode::kTrain);
  std::vector<float> outputs(48);
  network->ReadLogits(absl::MakeSpan(outputs));
  double squares = 0;
  for (const float output : outputs) squares += (output - 1) * (output - 1);
  EXPECT_NEAR(result.loss_sum / 2, squares / 48, 1e-5);
  network->Backward(0.5f, [](int) {});  // the scale of a rank alone: one over its samples
  const Parameter& mean = layout.parameters.back();
  EXPECT_EQ(mean.name, "norm.running_mean");
  EXPECT_NEAR(gradients->span()[mean.offset], (0 + 11 + 24 + 35) / 4.0, 1e-4);
}

TEST(CpuDeviceTest, ThreadsMustBePositive) {
  EXPECT_EQ(OpenCpu(0).status().message(), "threads per rank is 0; it must be 1 to 1024");
}

TEST(CpuDeviceTest, WhatTheProcessorLacksIsRefused) {
  const auto layers = *model::CheckShapes({{"", model::Linear{.out = 2}}}, {3});
  const auto device = *OpenCpu(1);
  const int64_t size = LayOut(layers).size;
  const auto values = *device->Allocate(size), gradients = *device->Allocate(size);
  const auto compile = [&](Precision precision) {
    return device
        ->Compile(layers, {.batch_size = 1, .precision = precision}, values->span(),
                  gradients->span())
        .status();
  };
  EXPECT_EQ(compile(Precision::kTf32).message(),
            "precision tf32 is computed on GPUs, and this rank computes on a CPU");
  const absl::Status bfloat16 = compile(Precision::kBfloat16);
  EXPECT_EQ(bfloat16.ok(), CpuHasBfloat16());
  if (bfloat16.ok()) return;
  EXPECT_THAT(std::string(bfloat16.message()), HasSubstr("needs a processor with AVX512-BF16"));
}

TEST(CpuDeviceTest, AProgramWithoutCudaSaysSo) {
  EXPECT_EQ(OpenCuda(0).status().message(), "built without CUDA");
}

}  // namespace
}  // namespace dp::engine
