#include "worker/trainer/program/self_check.h"

#include <dlfcn.h>

#include <sstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::trainer {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Need There(const std::string& name) {
  return {name, [] { return std::string("1.2.3"); }, "unused"};
}

Need Absent(const std::string& name) {
  return {name, [] { return absl::NotFoundError("no such file"); }, "install it"};
}

TEST(SelfCheckTest, EachNeedHasItsLineAndAllMustBeMet) {
  std::ostringstream out;
  EXPECT_EQ(SelfCheck({There("driver"), There("nccl")}, out), 0);
  EXPECT_EQ(out.str(), "driver: 1.2.3\nnccl: 1.2.3\n");
}

TEST(SelfCheckTest, WhatIsMissingIsSaidWithTheRemedyAndTheRestIsLookedForAllTheSame) {
  std::ostringstream out;
  EXPECT_EQ(SelfCheck({There("driver"), Absent("cudnn"), There("nccl")}, out), 1);
  EXPECT_EQ(out.str(), "driver: 1.2.3\ncudnn: missing: no such file; install it\nnccl: 1.2.3\n");
}

TEST(SelfCheckTest, EveryLibraryThatComputesIsLookedFor) {
  std::ostringstream out;
  (void)SelfCheck(CudaNeeds(), out);  // the result depends on the host
  for (const char* need : {"cublasLt", "cudnn", "nvrtc", "nccl"}) {
    EXPECT_THAT(out.str(), HasSubstr(absl::StrCat("\n", need, ": ")));
  }
}

TEST(SelfCheckTest, OnAHostWithoutADriverItSaysSo) {
  if (dlopen("libcuda.so.1", RTLD_NOW) != nullptr) GTEST_SKIP() << "this host has a driver";
  std::ostringstream out;
  EXPECT_EQ(SelfCheck(CudaNeeds(), out), 1);
  EXPECT_THAT(out.str(), StartsWith("driver: missing: libcuda.so.1: "));
  EXPECT_THAT(out.str(), HasSubstr("; install NVIDIA's driver on this host\n"));
  EXPECT_THAT(out.str(), HasSubstr("\ndevice: missing: "));
  EXPECT_THAT(out.str(), HasSubstr("\nengine: missing: "));
}

}  // namespace
}  // namespace dp::trainer
