#include "gtest/gtest.h"
#include "worker/engine/device/testing/device_conformance.h"

// The suites of every device over the CUDA device with its kernels run on the host: layer programs,
// addresses, lifetimes and the numbers of steps are tried without a GPU. What the libraries do, and
// graphs, are not.

namespace dp::engine {
namespace {

DeviceUnderTest OnHost() {
  return {.name = "CUDA device on the host", .open = [] { return OpenCuda(0); }};
}

DeviceUnderTest OnHostInBf16() {
  DeviceUnderTest device = OnHost();
  device.name += " in bf16";
  device.precision = Precision::kBfloat16;
  device.tolerance = 0.1;  // a pooling window may choose another maximum: 0.07 was seen
  return device;
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(OnHost, DeviceConformance, ::testing::Values(OnHost()));
INSTANTIATE_TEST_SUITE_P(OnHost, LanguageModelConformance, ::testing::Values(OnHost()));
INSTANTIATE_TEST_SUITE_P(OnHost, LanguageStepConformance,
                         ::testing::Values(OnHost(), OnHostInBf16()));
INSTANTIATE_TEST_SUITE_P(OnHost, TwinConformance, ::testing::Values(OnHost(), OnHostInBf16()));

}  // namespace dp::engine
