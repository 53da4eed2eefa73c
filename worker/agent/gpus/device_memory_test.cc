#include "worker/agent/gpus/device_memory.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::HasSubstr;

class NvmlTest : public testing::Test {
 protected:
  NvmlTest() { setenv("FAKE_NVML", file_.c_str(), 1); }
  void InUse(const std::string& bytes) { std::ofstream(file_) << bytes; }

  TemporaryDirectory directory_;
  const std::string file_ = directory_.path() + "/used";
  std::unique_ptr<DeviceMemorySource> nvml_ = *OpenNvml(DP_FAKE_NVML);
};

TEST_F(NvmlTest, TheMemoryInUseIsAskedForByUuidOrNumber) {
  InUse("1258291200");
  EXPECT_EQ(*nvml_->BytesInUse("GPU-aaaa"), 1200 << 20);
  EXPECT_EQ(*nvml_->BytesInUse("0"), 1200 << 20);
}

TEST_F(NvmlTest, AnErrorIsToldInTheDriversWords) {
  InUse("lost");
  EXPECT_EQ(nvml_->BytesInUse("GPU-bbbb").status(),
            absl::NotFoundError("NVML on GPU-bbbb: Not Found"));
  // The error of the older call counts.
  EXPECT_FALSE(nvml_->BytesInUse("GPU-aaaa").ok());
}

TEST(NvmlLibraryTest, WithoutALibraryTheReasonIsTold) {
  EXPECT_THAT(std::string(OpenNvml("/nowhere/libnvidia-ml.so.1").status().message()),
              HasSubstr("/nowhere/libnvidia-ml.so.1"));
  EXPECT_EQ(OpenNvml("libc.so.6").status(), absl::NotFoundError("NVML has no nvmlInit_v2"));
}

class NvidiaSmiTest : public testing::Test {
 protected:
  std::unique_ptr<DeviceMemorySource> Saying(const std::string& script) {
    const std::string path = directory_.path() + "/nvidia-smi";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    chmod(path.c_str(), 0700);
    return NvidiaSmi(path);
  }
  TemporaryDirectory directory_;
};

TEST_F(NvidiaSmiTest, TheMemoryInUseIsAskedForByUuid) {
  const auto smi = Saying(R"([ "$1 $2" = "--id=GPU-aaaa --query-gpu=memory.used" ] && echo 1200)");
  EXPECT_EQ(*smi->BytesInUse("GPU-aaaa"), 1200 << 20);
}

TEST_F(NvidiaSmiTest, WhatElseItSaysIsTheError) {
  EXPECT_THAT(std::string(Saying("echo 'No devices were found'; exit 6")
                              ->BytesInUse("GPU-aaaa")
                              .status()
                              .message()),
              HasSubstr("on GPU-aaaa: No devices were found"));
  EXPECT_THAT(std::string(NvidiaSmi("/nowhere/nvidia-smi")->BytesInUse("0").status().message()),
              HasSubstr("/nowhere/nvidia-smi: No such file"));
}

}  // namespace
}  // namespace dp::worker
