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

TEST(DeviceNamesTest, GpusAreTakenAndOutputsGoToOneOrToTheHost) {
  EXPECT_EQ(Fault({.device_ids = {"cuda:0", "cuda:12"}, .output_device = "cuda:3"}), "");
  EXPECT_EQ(Fault({.device_ids = {"cuda"}, .output_device = "cpu"}), "");
}

TEST(DeviceNamesTest, AnotherAcceleratorIsUnsupported) {
  EXPECT_TRUE(absl::IsUnimplemented(CheckDevice("mps:0")));
  EXPECT_TRUE(absl::IsUnimplemented(CheckDevice("tpu")));
  EXPECT_EQ(Fault({.device_ids = {"cuda:0", "hip:1"}}),
            "DataParallel: device 'hip:1' is an accelerator that this release does not use; give "
            "cpu:0, cpu:1, ..., or cuda:0, cuda:1, ...");
}

TEST(DeviceNamesTest, DevicesOfTwoKindsAreRejected) {
  EXPECT_EQ(Fault({.device_ids = {"cpu:0", "cuda:1"}}),
            "DataParallel: devices 'cpu:0' and 'cuda:1' are of two kinds, and replicas are alike; "
            "give CPUs only, or GPUs only");
  EXPECT_EQ(Fault({.device_ids = {"cpu:0"}, .output_device = "cuda:0"}),
            "DataParallel: output_device 'cuda:0' is a GPU, and device_ids are CPUs; give a CPU");
}

TEST(DeviceNamesTest, OtherNamesAreUnknown) {
  for (const char* name :
       {"", "cuda:", "cuda:x", "cpu:", "cpu:-1", "cpu:01", "cpu:1x", "cpu:99999999999", "0"}) {
    const absl::Status status = CheckDevice(name);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << name;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("is unknown; give cpu:0, cpu:1, ..., or cuda:0, cuda:1, ..."));
  }
}

TEST(DeviceNamesTest, EachDeviceHasANumberOfItsOwn) {
  EXPECT_EQ(Fault({.device_ids = {"cpu"}}),
            "DataParallel: device 'cpu' has no number; give cpu:0, cpu:1, ...");
  std::vector<std::string> gpus;
  for (int number = 0; number < 33; ++number) gpus.push_back("cuda:" + std::to_string(number));
  EXPECT_EQ(Fault({.device_ids = gpus}), "DataParallel: 33 GPUs are given; give 1 to 32");
  gpus.pop_back();
  EXPECT_EQ(Fault({.device_ids = gpus}), "");
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
