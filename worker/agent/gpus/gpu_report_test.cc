#include "worker/agent/gpus/gpu_report.h"

#include "base/limits.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

std::string ShortText(const v1::Gpu& gpu) {
  std::string text;
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.PrintToString(gpu, &text);
  return text;
}

TEST(GpuReportTest, WhatIsNotKnownIsNotTold) {
  EXPECT_EQ(ShortText(GpusToProto({{.name = "GPU-a", .read_by = "proc"}}, 1, {})[0]),
            "name: \"GPU-a\" read_by: \"proc\" ");
}

TEST(GpuReportTest, EveryFigureIsToldAndTheVerdict) {
  const GpuReading gpu{.name = "GPU-a",
                       .read_by = "nvml",
                       .model = "H100",
                       .memory_bytes = 100,
                       .memory_used_bytes = 7,
                       .utilisation_percent = 0,
                       .temperature_celsius = 40,
                       .slowdowns = 0x24,
                       .uncorrected_errors = 0,
                       .repair_pending = false,
                       .xid = 79};
  v1::Gpu told = GpusToProto({gpu}, 1, {})[0];
  EXPECT_EQ(told.unfit(), WhyUnfit(gpu, {}));
  told.clear_unfit();
  EXPECT_EQ(ShortText(told),
            "name: \"GPU-a\" read_by: \"nvml\" model: \"H100\" memory_bytes: 100 "
            "memory_used_bytes: 7 utilisation_percent: 0 temperature_celsius: 40 "
            "slowed_by: \"power cap\" slowed_by: \"heat\" uncorrected_errors: 0 "
            "repair_pending: false xid: 79 ");
}

TEST(GpuReportTest, GpusAreDealtToTheSlotsInTurnAndTooManyAreLeftOut) {
  const auto told = GpusToProto(std::vector<GpuReading>(kGpusMax + 1), 3, {});
  ASSERT_EQ(told.size(), kGpusMax);
  EXPECT_EQ(told[2].slot(), 2);
  EXPECT_EQ(told[3].slot(), 0);
}

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
