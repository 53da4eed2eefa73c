#include "worker/agent/gpus/gpu_reader.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;
using testing::Optional;

class NvmlGpusTest : public testing::Test {
 protected:
  NvmlGpusTest() {
    setenv("FAKE_NVML", file_.c_str(), 1);
    Say("0");
  }
  void Say(const std::string& what) { std::ofstream(file_) << what; }
  GpuReading Read() { return nvml_->Read({"GPU-aaaa"})[0]; }

  TemporaryDirectory directory_;
  const std::string file_ = directory_.path() + "/gpu";
  std::unique_ptr<GpuReader> nvml_ = *NvmlGpus(DP_FAKE_NVML);
};

TEST_F(NvmlGpusTest, EveryFigureIsRead) {
  Say("1048576 busy=97 temperature=61 slowdowns=0x24 errors=3 pending=1 failed=0");
  EXPECT_EQ(Read(), (GpuReading{.name = "GPU-aaaa",
                                .read_by = "nvml",
                                .model = "NVIDIA H100",
                                .memory_bytes = int64_t{80} << 30,
                                .memory_used_bytes = 1 << 20,
                                .utilisation_percent = 97,
                                .temperature_celsius = 61,
                                .slowdowns = 0x24,
                                .uncorrected_errors = 3,
                                .repair_pending = true,
                                .repair_failed = false,
                                .xid = 0}));
}

TEST_F(NvmlGpusTest, WhatTheDriverDoesNotSupportIsAbsent) {
  const GpuReading gpu = Read();
  EXPECT_EQ(gpu, (GpuReading{.name = "GPU-aaaa",
                             .read_by = "nvml",
                             .model = "NVIDIA H100",
                             .memory_bytes = int64_t{80} << 30,
                             .memory_used_bytes = 0,
                             .xid = 0}));
}

TEST_F(NvmlGpusTest, AReadingStandsForEachNameAlsoForOneThatIsNotThere) {
  const std::vector<GpuReading> gpus = nvml_->Read({"GPU-bbbb", "0"});
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0], (GpuReading{.name = "GPU-bbbb", .read_by = "nvml"}));
  EXPECT_EQ(gpus[1].model, "NVIDIA H100");
}

TEST_F(NvmlGpusTest, AGpuThatItsDriverHasLostSaysSo) {
  Say("lost");
  EXPECT_EQ(Read().lost, "GPU is lost");
  Say("0");
  EXPECT_EQ(Read().lost, "");
}

TEST_F(NvmlGpusTest, TheLatestXidIsToldUntilOneComesThatStands) {
  EXPECT_THAT(Read().xid, Optional(0));
  Say("0 xid=31");
  EXPECT_THAT(Read().xid, Optional(31));
  Say("0");
  EXPECT_THAT(Read().xid, Optional(31));
  Say("0 xid=79");
  EXPECT_THAT(Read().xid, Optional(79));
  Say("0 xid=43");
  EXPECT_THAT(Read().xid, Optional(79));
}

TEST(NvmlGpusLibraryTest, WithoutALibraryTheReasonIsTold) {
  EXPECT_EQ(NvmlGpus("libc.so.6").status(), absl::NotFoundError("NVML has no nvmlInit_v2"));
}

class SmiGpusTest : public testing::Test {
 protected:
  SmiGpusTest() {
    std::filesystem::create_directories(driver_ + "/0000:01:00.0");
    std::ofstream(driver_ + "/0000:01:00.0/information") << "Model: NVIDIA A\nGPU UUID: GPU-a\n";
  }
  ~SmiGpusTest() override { std::filesystem::remove_all(driver_); }
  std::vector<GpuReading> Read(const std::string& script, const std::vector<std::string>& names) {
    const std::string path = directory_.path() + "/nvidia-smi";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    chmod(path.c_str(), 0700);
    return SmiGpus(driver_, path)->Read(names);
  }

  TemporaryDirectory directory_;
  const std::string driver_ = directory_.path() + "/gpus";
};

TEST_F(SmiGpusTest, WhatTheProgramTellsOfEachIsRead) {
  EXPECT_THAT(Read("echo '0, GPU-a, NVIDIA A, 81559, 1200, 97, 61, 2, [N/A]'\n"
                   "echo '1, GPU-b, NVIDIA B, 24576, 3, [N/A], [N/A], [N/A], Yes'",
                   {"GPU-b", "0"}),
              ElementsAre(GpuReading{.name = "GPU-b",
                                     .read_by = "nvidia-smi",
                                     .model = "NVIDIA B",
                                     .memory_bytes = int64_t{24576} << 20,
                                     .memory_used_bytes = 3 << 20,
                                     .repair_pending = true},
                          GpuReading{.name = "0",
                                     .read_by = "nvidia-smi",
                                     .model = "NVIDIA A",
                                     .memory_bytes = int64_t{81559} << 20,
                                     .memory_used_bytes = 1200 << 20,
                                     .utilisation_percent = 97,
                                     .temperature_celsius = 61,
                                     .uncorrected_errors = 2}));
}

TEST_F(SmiGpusTest, WhereItSaysNothingTheDriversFolderDoes) {
  const GpuReading known{.name = "GPU-a", .read_by = "proc", .model = "NVIDIA A"};
  EXPECT_THAT(Read("echo 'NVIDIA-SMI has failed, as there is no driver'; exit 9", {"GPU-a"}),
              ElementsAre(known));
  EXPECT_THAT(SmiGpus(driver_, "/nowhere/nvidia-smi")->Read({"GPU-a"}), ElementsAre(known));
}

class CountedReader final : public GpuReader {
 public:
  std::vector<GpuReading> Read(const std::vector<std::string>& names) override {
    ++readings_;
    return {{.name = names[0], .utilisation_percent = readings_}};
  }

 private:
  int readings_ = 0;
};

TEST(GpuWatchTest, GpusAreReadAtOnceAndAgainAndTheLatestIsKept) {
  BoundedQueue<std::vector<GpuReading>> readings(1 << 16);
  CountedReader reader;
  GpuWatch watch(reader, {"GPU-a"}, absl::Milliseconds(1),
                 [&readings](std::vector<GpuReading> gpus) { (void)readings.TryPush(gpus); });
  int told = 0;
  while (told < 3) {
    for (const std::vector<GpuReading>& gpus : readings.DrainFor(absl::Seconds(20))) {
      EXPECT_THAT(gpus[0].utilisation_percent, Optional(++told));
    }
  }
  const GpuWatch::Latest latest = watch.latest();
  EXPECT_GE(latest.number, 3u);
  EXPECT_THAT(latest.gpus[0].utilisation_percent, Optional(static_cast<int>(latest.number)));
}

}  // namespace
}  // namespace dp::worker
