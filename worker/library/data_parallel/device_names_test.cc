#include "worker/library/data_parallel/device_names.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::library {
namespace {

using ::testing::HasSubstr;

std::string Fault(const distributed::DataParallelOptions& options) {
  return std::string(CheckDataParallelOptions(options).message());
}

TEST(DeviceNamesTest, CpuDevicesAreTaken) {
  EXPECT_EQ(Fault({}), "");
  EXPECT_EQ(Fault({.device_ids = {"cpu:0", "cpu:12"}, .output_device = "cpu:3", .dim = 2}), "");
}

TEST(DeviceNamesTest, AnAcceleratorIsUnsupported) {
  EXPECT_TRUE(absl::IsUnimplemented(CheckDevice("cuda:0")));
  EXPECT_TRUE(absl::IsUnimplemented(CheckDevice("tpu")));
  EXPECT_EQ(Fault({.device_ids = {"cpu:0", "cuda:1"}}),
            "DataParallel: device 'cuda:1' is an accelerator, and this release has CPU devices "
            "only; give cpu:0, cpu:1, ..., or train with one process for each GPU, as jobs of dp "
            "do");
  EXPECT_THAT(Fault({.device_ids = {"cpu:0"}, .output_device = "cuda:0"}), HasSubstr("'cuda:0'"));
}

TEST(DeviceNamesTest, OtherNamesAreUnknown) {
  for (const char* name :
       {"", "cpu", "cpu:", "cpu:-1", "cpu:01", "cpu:1x", "cpu:99999999999", "0"}) {
    const absl::Status status = CheckDevice(name);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("is unknown; give cpu:0, cpu:1, ..."));
  }
}

TEST(DeviceNamesTest, OptionsThatMeanNothingAreRejected) {
  EXPECT_EQ(Fault({.dim = -1}), "DataParallel: dim is -1; give 0 or more");
  EXPECT_EQ(Fault({.output_device = "cpu:0"}),
            "DataParallel: output_device is cpu:0 without device_ids; give both, or none");
  EXPECT_EQ(Fault({.device_ids = {"cpu:1", "cpu:1"}}),
            "DataParallel: device 'cpu:1' is given twice; give each device once");
  EXPECT_EQ(Fault({.device_ids = std::vector<std::string>(257)}),
            "DataParallel: 257 devices are given; give 1 to 256");
}

}  // namespace
}  // namespace dp::library
