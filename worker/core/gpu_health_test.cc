#include "worker/core/gpu_health.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// A GPU with all readings, and none that makes it unfit.
GpuReading AGpu() {
  return {.name = "GPU-a",
          .read_by = "nvml",
          .model = "NVIDIA H100",
          .memory_bytes = int64_t{80} << 30,
          .memory_used_bytes = 0,
          .utilisation_percent = 100,
          .temperature_celsius = 95,
          .slowdowns = 0x40,
          .uncorrected_errors = 0,
          .repair_pending = true,
          .repair_failed = false,
          .xid = 31};
}

TEST(GpuHealthTest, AGpuIsFitWhereNothingIsKnownAgainstIt) {
  EXPECT_EQ(WhyUnfit({.name = "GPU-a"}, {}), "");
  // Hot, slow, with a pending repair, and with a program's invalid memory access.
  EXPECT_EQ(WhyUnfit(AGpu(), {}), "");
}

TEST(GpuHealthTest, OneThatItsDriverHasLostIsUnfit) {
  GpuReading gpu = AGpu();
  gpu.lost = "GPU is lost";
  EXPECT_THAT(WhyUnfit(gpu, {}), StartsWith("is lost to its driver (GPU is lost): reset it"));
}

TEST(GpuHealthTest, AnXidThatStandsUntilAResetMakesItUnfitAndAProgramsOwnDoesNot) {
  GpuReading gpu = AGpu();
  for (const int xid : {62, 64, 74, 79, 95, 119, 120, 140}) {
    gpu.xid = xid;
    EXPECT_THAT(WhyUnfit(gpu, {}), StartsWith("had Xid " + std::to_string(xid) + " ("));
  }
  for (const int xid : {0, 8, 13, 31, 43, 45, 48, 63, 68, 94}) {
    gpu.xid = xid;
    EXPECT_EQ(WhyUnfit(gpu, {}), "") << xid;
  }
}

TEST(GpuHealthTest, UncorrectedErrorsMakeItUnfitPastTheLimit) {
  GpuReading gpu = AGpu();
  gpu.uncorrected_errors = 1;
  EXPECT_THAT(WhyUnfit(gpu, {}), StartsWith("has had 1 uncorrected memory error: reset it"));
  EXPECT_EQ(WhyUnfit(gpu, {.uncorrected_errors_max = 1}), "");
  gpu.uncorrected_errors = 2;
  EXPECT_THAT(WhyUnfit(gpu, {.uncorrected_errors_max = 1}),
              HasSubstr("2 uncorrected memory errors:"));
}

TEST(GpuHealthTest, OneWithoutSpareMemoryIsToBeReplacedWhateverTheLimit) {
  GpuReading gpu = AGpu();
  gpu.repair_failed = true;
  EXPECT_THAT(WhyUnfit(gpu, {.uncorrected_errors_max = 1000}), HasSubstr("have it replaced"));
}

TEST(GpuHealthTest, SlowdownsAreNamedAndIdlenessIsNone) {
  EXPECT_THAT(SlowdownNames(0), IsEmpty());
  EXPECT_THAT(SlowdownNames(0x1 | 0x2 | 0x10 | 0x100), IsEmpty());
  EXPECT_THAT(SlowdownNames(0x4 | 0x20), ElementsAre("power cap", "heat"));
  EXPECT_THAT(SlowdownNames(0x8), ElementsAre("hardware"));
  EXPECT_THAT(SlowdownNames(0x8 | 0x40), ElementsAre("heat (hardware)"));
}

}  // namespace
}  // namespace dp::worker
