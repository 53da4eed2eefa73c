#include "worker/engine/device/device.h"

#include "gtest/gtest.h"
#include "worker/engine/device/testing/device_conformance.h"

namespace dp::engine {

INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformance, ::testing::Values(OneCpuThread()));
INSTANTIATE_TEST_SUITE_P(Cpu, LayerConformance, ::testing::Values(OneCpuThread()));
INSTANTIATE_TEST_SUITE_P(Cpu, BatchNormConformance, ::testing::Values(OneCpuThread()));
INSTANTIATE_TEST_SUITE_P(Cpu, LanguageModelConformance, ::testing::Values(OneCpuThread()));
INSTANTIATE_TEST_SUITE_P(Cpu, LanguageStepConformance, ::testing::Values(OneCpuThread()));
INSTANTIATE_TEST_SUITE_P(Cpu, TwinConformance, ::testing::Values(OneCpuThread()));

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

TEST(CpuDeviceTest, ThreadsMustBePositive) {
  EXPECT_EQ(OpenCpu(0).status().message(), "threads per rank is 0; it must be 1 to 1024");
}

TEST(CpuDeviceTest, WhatIsLessPreciseThanFloat32IsRefused) {
  const auto layers = *model::CheckShapes({{"", model::Linear{.out = 2}}}, {3});
  const auto device = *OpenCpu(1);
  const int64_t size = LayOut(layers).size;
  const auto values = *device->Allocate(size), gradients = *device->Allocate(size);
  for (const Precision precision : {Precision::kBfloat16, Precision::kTf32}) {
    EXPECT_EQ(
        device
            ->Compile(layers, {.batch_size = 1, .precision = precision}, values->span(),
                      gradients->span())
            .status()
            .message(),
        "precisions other than float32 are computed on GPUs, and this rank computes on a CPU");
  }
}

TEST(CpuDeviceTest, AProgramWithoutCudaSaysSo) {
  EXPECT_EQ(OpenCuda(0).status().message(), "built without CUDA");
}

}  // namespace
}  // namespace dp::engine
