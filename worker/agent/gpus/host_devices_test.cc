#include "worker/agent/gpus/host_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace dp::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class HostDevicesTest : public ::testing::Test {
 protected:
  ~HostDevicesTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void PutDevice(const std::string& place, const std::string& vendor,
                 const std::string& device) const {
    Write("bus/pci/devices/" + place + "/vendor", vendor + "\n");
    Write("bus/pci/devices/" + place + "/device", device + "\n");
  }

  const fs::path root_ = fs::path(::testing::TempDir()) / "host_devices_test";
};

TEST_F(HostDevicesTest, TpusAreFoundOnTheBus) {
  PutDevice("0000:00:05.0", "0x1ae0", "0x0063");
  PutDevice("0000:00:04.0", "0x1ae0", "0x0063");
  PutDevice("0000:00:06.0", "0x10de", "0x0063");  // another maker's
  PutDevice("0000:00:07.0", "0x1ae0", "0x0042");  // a network card of Google's
  EXPECT_THAT(ListTpus(root_), ElementsAre("0000:00:04.0 TPU v5e", "0000:00:05.0 TPU v5e"));
}

TEST_F(HostDevicesTest, AHostWithoutABusHasNoTpus) { EXPECT_THAT(ListTpus(root_), IsEmpty()); }

TEST_F(HostDevicesTest, TheProcessorIsNamed) {
  Write("cpuinfo", "processor\t: 0\nmodel name\t: Great CPU @ 2 GHz\nmodel name\t: other\n");
  EXPECT_EQ(ReadCpus(root_).model, "Great CPU @ 2 GHz");
  EXPECT_GE(ReadCpus(root_).count, 1);
  EXPECT_EQ(ReadCpus(root_ / "none").model, "");
}

TEST_F(HostDevicesTest, DevicesAreListedInTheOrderOfPreference) {
  EXPECT_EQ(DeviceLines({"0000:00:04.0 TPU v5e"}, "1 GPU that ranks may use, by nvml\nGPU-a H100\n",
                        /*has_gpus=*/true, {"Great CPU", 2}),
            "1 TPU\n0000:00:04.0 TPU v5e\n1 GPU that ranks may use, by nvml\nGPU-a H100\n"
            "2 CPUs that ranks may use: Great CPU\n"
            "native training prefers GPUs; programs that know TPUs find them by themselves\n");
  EXPECT_EQ(DeviceLines({}, "0 GPUs that ranks may use: no driver\n", /*has_gpus=*/false, {"", 1}),
            "0 TPUs\n0 GPUs that ranks may use: no driver\n1 CPU that ranks may use\n"
            "native training takes CPUs\n");
}

}  // namespace
}  // namespace dp::worker
