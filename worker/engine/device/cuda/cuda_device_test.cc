#include "gtest/gtest.h"
#include "worker/engine/device/testing/device_conformance.h"

// The suites of every device, on the first GPU. Without a GPU they are skipped, and report what is
// missing.

namespace dp::engine {
namespace {

absl::StatusOr<std::unique_ptr<Device>> OpenFirst() { return OpenCuda(0); }

DeviceUnderTest FirstGpu() { return {.name = "GPU", .open = OpenFirst}; }

// Factors have 8 bits, sums another order, and a pooling window may choose another maximum. On the
// host errors up to 0.07 were seen.
DeviceUnderTest FirstGpuInBf16() {
  return {.name = "GPU in bf16",
          .open = OpenFirst,
          .precision = Precision::kBfloat16,
          .tolerance = 0.1};
}

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
                         ::testing::Values(FirstGpu(), FirstGpuInBf16()));
INSTANTIATE_TEST_SUITE_P(Gpu, BatchNormConformance, ::testing::Values(FirstGpu()));
INSTANTIATE_TEST_SUITE_P(Gpu, LanguageModelConformance, ::testing::Values(FirstGpu()));
INSTANTIATE_TEST_SUITE_P(Gpu, LanguageStepConformance,
                         ::testing::Values(FirstGpu(), FirstGpuInBf16()));
INSTANTIATE_TEST_SUITE_P(Gpu, TwinConformance, ::testing::Values(FirstGpu(), FirstGpuInBf16()));

}  // namespace dp::engine
