#include "worker/agent/gpus/gpu_metrics.h"

#include "gtest/gtest.h"

namespace dp::worker {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

TEST(GpuMetricsTest, ARankHearsOfTheGpusOfItsSlotAlone) {
  const GpuReading mine{.name = "GPU-a",
                        .memory_bytes = 80,
                        .memory_used_bytes = 3,
                        .utilisation_percent = 97,
                        .temperature_celsius = 61};
  EXPECT_EQ(GpuMetricLines(2, {{"GPU-a", "GPU 0"}}, {mine, {.name = "GPU-b"}}, kNow),
            R"({"event":"gpu","time":"2023-11-14T22:13:20Z","rank":2,"gpu":"GPU-a",)"
            R"("gpu_memory_bytes":"80","gpu_memory_used_bytes":"3",)"
            R"("gpu_utilisation_percent":97,"gpu_temperature_celsius":61})"
            "\n");
  EXPECT_EQ(GpuMetricLines(2, {}, {mine}, kNow), "");
}

TEST(GpuMetricsTest, WhatTheDriverDoesNotSayIsAbsentAndNotZero) {
  EXPECT_EQ(GpuMetricLines(0, {{"GPU-a", "GPU 0"}}, {{.name = "GPU-a"}}, kNow),
            R"({"event":"gpu","time":"2023-11-14T22:13:20Z","rank":0,"gpu":"GPU-a"})"
            "\n");
}

}  // namespace
}  // namespace dp::worker
