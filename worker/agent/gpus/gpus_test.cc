#include "worker/agent/gpus/gpus.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class GpusTest : public testing::Test {
 protected:
  ~GpusTest() override { std::filesystem::remove_all(driver_); }
  void Add(const std::string& bus, const std::string& information) {
    std::filesystem::create_directories(driver_ + "/" + bus);
    std::ofstream(driver_ + "/" + bus + "/information") << information;
  }

  TemporaryDirectory directory_;
  const std::string driver_ = directory_.path() + "/gpus";
};

TEST_F(GpusTest, EveryDeviceIsNamedByItsUuidInTheOrderOfTheBus) {
  Add("0000:41:00.0", "Model: \t B\nGPU UUID: \t GPU-bbbb\n");
  Add("0000:01:00.0", "Model: \t A\nGPU UUID: \t GPU-aaaa\nVideo BIOS: ??.??\n");
  EXPECT_THAT(FindGpus({}, ListByProc(driver_)), ElementsAre("GPU-aaaa", "GPU-bbbb"));
}

TEST_F(GpusTest, AreListedForPeopleWithTheirModelsOrTheReasonWhyThereAreNone) {
  const InstalledGpu h100 = {"0000:01:00.0", "GPU-aaaa", "NVIDIA H100"};
  const InstalledGpu a100 = {"0000:41:00.0", "GPU-bbbb", "NVIDIA A100"};
  const GpuInventory both = {{h100, a100}, "nvml", ""};
  EXPECT_EQ(GpuLines(both, {"GPU-aaaa", "GPU-bbbb"}),
            "2 GPUs that ranks may use, by nvml\nGPU-aaaa NVIDIA H100\nGPU-bbbb NVIDIA A100\n");
  EXPECT_EQ(GpuLines(both, {"1"}), "1 GPU that ranks may use, by nvml\n1\n");
  EXPECT_EQ(GpuLines(both, {}),
            "0 GPUs that ranks may use: CUDA_VISIBLE_DEVICES names none of the 2 here\n");
  EXPECT_EQ(GpuLines({{h100}, "proc", "it hangs"}, {"GPU-aaaa"}),
            "1 GPU that ranks may use, by proc (it hangs)\nGPU-aaaa NVIDIA H100\n");
  EXPECT_EQ(GpuLines(both, {"1"}, "abc"), "1 GPU that ranks may use, by nvml; abc\n1\n");
  EXPECT_EQ(GpuLines(both, {}, "abc"), "0 GPUs that ranks may use: abc\n");
  EXPECT_EQ(GpuLines({{}, "", "no driver"}, {}), "0 GPUs that ranks may use: no driver\n");
}

TEST_F(GpusTest, ADeviceWhoseUuidIsNotKnownGoesByItsNumber) {
  Add("0000:01:00.0", "GPU UUID: \t GPU-?\n");
  EXPECT_THAT(FindGpus({}, ListByProc(driver_)), ElementsAre("0"));
}

TEST_F(GpusTest, TheDaemonsOwnLimitHoldsByUuidTooWhereAllAreOfOneModel) {
  Add("0000:01:00.0", "Model: A\nGPU UUID: GPU-aaaa\n");
  Add("0000:41:00.0", "Model: A\nGPU UUID: GPU-bbbb\n");
  Add("0000:61:00.0", "Model: A\nGPU UUID: GPU-?\n");
  EXPECT_THAT(FindGpus({"1, 0"}, ListByProc(driver_)), ElementsAre("GPU-bbbb", "GPU-aaaa"));
  EXPECT_THAT(FindGpus({"2"}, ListByProc(driver_)), ElementsAre("2"));
  EXPECT_THAT(FindGpus({"1,-1,0"}, ListByProc(driver_)), ElementsAre("GPU-bbbb"));
  EXPECT_THAT(FindGpus({"1,3,0"}, ListByProc(driver_)), ElementsAre("GPU-bbbb"));
  EXPECT_THAT(FindGpus({"GPU-bb,MIG-cc"}, ListByProc(driver_)), ElementsAre("GPU-bbbb", "MIG-cc"));
  EXPECT_THAT(FindGpus({""}, ListByProc(driver_)), IsEmpty());
}

TEST_F(GpusTest, ALimitRenumbersTheDevicesInItsOrder) {
  for (const std::string bus : {"01", "41", "61", "81"})
    Add("0000:" + bus + ":00.0", "Model: A\nGPU UUID: GPU-" + bus + "\n");
  EXPECT_THAT(FindGpus({"0,3"}, ListByProc(driver_)), ElementsAre("GPU-01", "GPU-81"));
}

TEST_F(GpusTest, EntriesThatNameNoGpuOrOneAgainAreLeftOutAndNamed) {
  Add("0000:01:00.0", "Model: A\nGPU UUID: GPU-aaaa\n");
  Add("0000:41:00.0", "Model: A\nGPU UUID: GPU-bbbb\n");
  const auto gpus = ListByProc(driver_);
  for (const std::string entry : {"abc", "GPU-zzz", "0x0", "99999999999999999999"}) {
    const std::string limit = "1," + entry + ",0";
    EXPECT_THAT(FindGpus({limit.c_str()}, gpus), ElementsAre("GPU-bbbb"));
    EXPECT_EQ(WhyLeftOut({limit.c_str()}, gpus),
              "CUDA_VISIBLE_DEVICES=" + limit + " names " + entry +
                  ", which is no GPU here; nothing behind it counts");
  }
  EXPECT_THAT(FindGpus({"0,0,GPU-aa,1"}, gpus), ElementsAre("GPU-aaaa", "GPU-bbbb"));
  EXPECT_EQ(WhyLeftOut({"0,0,GPU-aa,1"}, gpus),
            "CUDA_VISIBLE_DEVICES=0,0,GPU-aa,1 names 0, GPU-aa again, which counts once");
  EXPECT_EQ(WhyLeftOut({"-1"}, gpus), "CUDA_VISIBLE_DEVICES names none of the 2 here");
  EXPECT_EQ(WhyLeftOut({"0,1"}, gpus), "");
  EXPECT_EQ(WhyLeftOut({}, gpus), "");
}

TEST_F(GpusTest, NumbersOfSeveralModelsNameDevicesOnlyInTheOrderOfTheBus) {
  Add("0000:01:00.0", "Model: A\nGPU UUID: GPU-aaaa\n");
  Add("0000:41:00.0", "Model: B\nGPU UUID: GPU-bbbb\n");
  EXPECT_THAT(FindGpus({"1,3"}, ListByProc(driver_)), ElementsAre("1", "3"));
  EXPECT_THAT(FindGpus({"1", "FASTEST_FIRST"}, ListByProc(driver_)), ElementsAre("1"));
  EXPECT_THAT(FindGpus({"1", "PCI_BUS_ID"}, ListByProc(driver_)), ElementsAre("GPU-bbbb"));
}

TEST_F(GpusTest, TheDriversFolderTellsTheModelOfEach) {
  Add("0000:01:00.0", "Model: \t NVIDIA H100\nGPU UUID: \t GPU-aaaa\n");
  EXPECT_THAT(ReadProcGpus({"GPU-aaaa", "0", "GPU-bbbb"}, driver_),
              ElementsAre(GpuReading{"GPU-aaaa", "proc", "NVIDIA H100"},
                          GpuReading{"0", "proc", "NVIDIA H100"}, GpuReading{"GPU-bbbb", "proc"}));
}

TEST_F(GpusTest, WithoutADriverThereAreNone) {
  EXPECT_THAT(FindGpus({}, ListByProc(driver_)), IsEmpty());
  EXPECT_THAT(FindGpus({"0,1"}, ListByProc(driver_)), IsEmpty());
}

}  // namespace
}  // namespace dp::worker
