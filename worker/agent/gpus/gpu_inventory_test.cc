#include "worker/agent/gpus/gpu_inventory.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const InstalledGpu kOfNvml = {"00000000:c1:00.0", "GPU-aaaa", "NVIDIA H100"};
const InstalledGpu kOfSmi = {"00000000:41:00.0", "GPU-bbbb", "NVIDIA B"};
const InstalledGpu kOfProc = {"00000000:01:00.0", "GPU-cccc", "NVIDIA C"};

// A host on which each source knows another GPU, which shows the source that decided.
class GpuInventoryTest : public testing::Test {
 protected:
  GpuInventoryTest() {
    setenv("FAKE_NVML", (directory_.path() + "/gpu").c_str(), 1);
    NvmlSays("0");
    SmiSays("00000000:C2:00.0, GPU-dddd, NVIDIA D\n00000000:41:00.0, GPU-bbbb, NVIDIA B");
    std::filesystem::create_directories(sources_.driver_dir + "/0000:01:00.0");
    std::ofstream(sources_.driver_dir + "/0000:01:00.0/information")
        << "Model: NVIDIA C\nGPU UUID: GPU-cccc\n";
  }
  ~GpuInventoryTest() override { std::filesystem::remove_all(sources_.driver_dir); }
  void NvmlSays(const std::string& what) { std::ofstream(directory_.path() + "/gpu") << what; }
  void SmiSays(const std::string& what) {
    std::ofstream(sources_.nvidia_smi) << "#!/bin/sh\necho '" << what << "'\n";
    chmod(sources_.nvidia_smi.c_str(), 0700);
  }
  void NvmlHangs(const std::string& where) {
    NvmlSays("0 hang_at_" + where + "=1");
    sources_.nvml_patience = absl::Seconds(1);
  }
  void WithoutNvml() { sources_.nvml = directory_.path() + "/no_such_library"; }
  void WithoutSmi() { sources_.nvidia_smi = directory_.path() + "/no_such_program"; }
  void WithoutProc() { std::filesystem::remove_all(sources_.driver_dir); }
  GpuInventory Take() const { return TakeGpuInventory(sources_); }

  TemporaryDirectory directory_;
  GpuInventorySources sources_{.nvml = DP_FAKE_NVML,
                               .nvml_lister = DP_WORKER,
                               .nvml_patience = absl::Seconds(60),
                               .nvidia_smi = directory_.path() + "/nvidia-smi",
                               .driver_dir = directory_.path() + "/gpus"};
};

TEST_F(GpuInventoryTest, NvmlIsAskedFirstAndNeedsNoFolderOfTheDriver) {
  EXPECT_THAT(Take().gpus, ElementsAre(kOfNvml));
  WithoutProc();
  WithoutSmi();
  EXPECT_THAT(Take().gpus, ElementsAre(kOfNvml));
  EXPECT_EQ(Take().listed_by, "nvml");
}

TEST_F(GpuInventoryTest, AGpuThatNvmlHasLostIsNamedByTheDriversFolder) {
  NvmlSays("0 lost_at_start=1");
  EXPECT_THAT(Take().gpus, ElementsAre(kOfProc, kOfNvml));
}

TEST_F(GpuInventoryTest, WithoutNvmlTheProgramIsAskedAndItsLinesAreSortedByTheBus) {
  WithoutNvml();
  const GpuInventory found = Take();
  EXPECT_THAT(found.gpus,
              ElementsAre(kOfSmi, InstalledGpu{"00000000:c2:00.0", "GPU-dddd", "NVIDIA D"}));
  EXPECT_EQ(found.listed_by, "nvidia-smi");
  EXPECT_THAT(found.why_not, HasSubstr("no_such_library"));
}

TEST_F(GpuInventoryTest, ADriversLibraryThatHangsIsLeftAloneAndTheProgramIsAsked) {
  for (const std::string where : {"load", "start"}) {
    NvmlHangs(where);
    const GpuInventory found = Take();
    EXPECT_EQ(found.listed_by, "nvidia-smi") << where;
    EXPECT_THAT(found.nvml_fault, HasSubstr("hangs: no answer within 1s; it is left alone"));
    EXPECT_EQ(found.why_not, found.nvml_fault);
  }
}

TEST_F(GpuInventoryTest, ADriversLibraryThatCrashesHarmsOnlyTheProcessThatAsksIt) {
  NvmlSays("0 abort_at_start=1");
  const GpuInventory found = Take();
  EXPECT_EQ(found.listed_by, "nvidia-smi");
  EXPECT_THAT(found.nvml_fault, HasSubstr("crashes, by signal 6; it is left alone"));
}

TEST_F(GpuInventoryTest, ALibraryThatIsMissingOrWellMayBeLoaded) {
  EXPECT_EQ(Take().nvml_fault, "");
  WithoutNvml();
  EXPECT_EQ(Take().nvml_fault, "");
}

TEST_F(GpuInventoryTest, WhereTheProgramOnlyComplainsTheDriversFolderIsRead) {
  WithoutNvml();
  SmiSays("NVIDIA-SMI has failed because it could not talk to the driver, so, sorry");
  EXPECT_THAT(Take().gpus, ElementsAre(kOfProc));
  EXPECT_EQ(Take().listed_by, "proc");
}

TEST_F(GpuInventoryTest, WhereNobodyKnowsAnyAllSayWhy) {
  WithoutNvml();
  WithoutSmi();
  WithoutProc();
  const GpuInventory none = Take();
  EXPECT_THAT(none.gpus, IsEmpty());
  EXPECT_EQ(none.listed_by, "");
  EXPECT_THAT(none.why_not, AllOf(HasSubstr("no_such_library"), HasSubstr("no_such_program"),
                                  HasSubstr(sources_.driver_dir)));
}

TEST(OrderedBusIdTest, OnePlaceHasOneNameAndTheOrderOfTheBus) {
  EXPECT_EQ(OrderedBusId("0000:C1:00.0"), "00000000:c1:00.0");
  EXPECT_EQ(OrderedBusId("00000000:C1:00.0"), "00000000:c1:00.0");
  EXPECT_LT(OrderedBusId("0000:C1:00.0"), OrderedBusId("10000:01:00.0"));
  EXPECT_EQ(OrderedBusId(""), "");
}

}  // namespace
}  // namespace dp::worker
