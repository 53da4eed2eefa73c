#include "gtest/gtest.h"
#include "worker/engine/device/testing/device_conformance.h"

// The suites of every device, on the first GPU. Without a GPU they are skipped, and report what is
// missing.

namespace dp::engine {
namespace {

absl::StatusOr<std::unique_ptr<Device>> OpenFirst() { return OpenCuda(0); }

DeviceUnderTest FirstGpu() { return {.name = "GPU", .open = OpenFirst}; }

DeviceUnderTest FirstGpuIn(Precision precision, const std::string& name) {
  return {.name = "GPU in " + name,
          .open = OpenFirst,
          .precision = precision,
          .tolerance = ToleranceOf(precision)};
}
DeviceUnderTest FirstGpuInBf16() { return FirstGpuIn(Precision::kBfloat16, "bf16"); }
DeviceUnderTest FirstGpuInTf32() { return FirstGpuIn(Precision::kTf32, "TF32"); }

TEST(CudaDeviceTest, AHostWithoutAGpuIsToldWhatIsMissing) {
  const absl::Status status = OpenCuda(0).status();
  if (status.ok()) GTEST_SKIP() << "this host has a GPU";
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_NE(status.message().find("NVIDIA driver"), absl::string_view::npos) << status;
}

TEST(CudaDeviceTest, AGpuThatIsNotThereIsNamed) {
  if (!OpenCuda(0).ok()) GTEST_SKIP() << "no CUDA device: " << OpenCuda(0).status().message();
  EXPECT_EQ(OpenCuda(4096).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Gpu, DeviceConformance, ::testing::Values(FirstGpu()));
INSTANTIATE_TEST_SUITE_P(Gpu, LayerConformance, ::testing::Values(FirstGpu()));
INSTANTIATE_TEST_SUITE_P(Gpu, LayerTwinConformance,
                         ::testing::Values(FirstGpu(), FirstGpuInBf16(), FirstGpuInTf32()));
INSTANTIATE_TEST_SUITE_P(Gpu, BatchNormConformance, ::testing::Values(FirstGpu()));
INSTANTIATE_TEST_SUITE_P(Gpu, LanguageModelConformance, ::testing::Values(FirstGpu()));
INSTANTIATE_TEST_SUITE_P(Gpu, LanguageStepConformance,
                         ::testing::Values(FirstGpu(), FirstGpuInBf16()));
INSTANTIATE_TEST_SUITE_P(Gpu, TwinConformance, ::testing::Values(FirstGpu(), FirstGpuInBf16()));

}  // namespace dp::engine
