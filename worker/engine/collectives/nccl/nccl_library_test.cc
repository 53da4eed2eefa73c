#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/nccl/nccl_api.h"

// The real library, as far as it works without a device.

namespace dp::engine {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The first library that the loader does not find; empty if it finds all.
std::string MissingLibrary() {
  for (const absl::string_view library : absl::StrSplit(DP_NCCL_LIBRARIES, ' ')) {
    if (dlopen(std::string(library).c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
      return std::string(library);
    }
  }
  return "";
}

TEST(NcclLibraryTest, ABuildWithoutNcclSaysSo) {
  if (!absl::string_view(DP_NCCL_LIBRARIES).empty()) GTEST_SKIP() << "built with NCCL";
  EXPECT_EQ(LoadNccl().status(), absl::UnimplementedError("built without NCCL"));
}

TEST(NcclLibraryTest, AHostWithAllLibrariesLoadsThem) {
  if (absl::string_view(DP_NCCL_LIBRARIES).empty()) GTEST_SKIP() << "built without NCCL";
  if (!MissingLibrary().empty()) GTEST_SKIP() << "no NCCL here: " << MissingLibrary();
  EXPECT_TRUE(LoadNccl().ok()) << LoadNccl().status();
}

TEST(NcclLibraryTest, AMissingLibraryIsNamedWithTheRemedy) {
  if (absl::string_view(DP_NCCL_LIBRARIES).empty()) GTEST_SKIP() << "built without NCCL";
  if (MissingLibrary().empty()) GTEST_SKIP() << "this host has NCCL and CUDA's runtime";
  const absl::Status status = LoadNccl().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(StartsWith(absl::StrCat("cannot load ", MissingLibrary(), ": ")),
                    EndsWith("; install it or set LD_LIBRARY_PATH")));
}

TEST(NcclLibraryTest, CudasRuntimeLoadsAlone) {
  if (absl::string_view(DP_CUDA_LIBRARY).empty()) {
    EXPECT_EQ(LoadCuda().status(), absl::UnimplementedError("built without CUDA"));
  } else if (dlopen(DP_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL) != nullptr) {
    EXPECT_TRUE(LoadCuda().ok()) << LoadCuda().status();
  } else {
    EXPECT_THAT(std::string(LoadCuda().status().message()),
                AllOf(StartsWith(absl::StrCat("cannot load ", DP_CUDA_LIBRARY, ": ")),
                      EndsWith("; install it or set LD_LIBRARY_PATH")));
  }
}

TEST(NcclLibraryTest, AHostWithoutAGpuHasNoneToCount) {
  auto cuda = LoadCuda();
  if (!cuda.ok()) GTEST_SKIP() << cuda.status();
  const auto count = (*cuda)->DeviceCount();
  if (count.ok()) GTEST_SKIP() << "this host has a CUDA device";
  EXPECT_THAT(std::string(count.status().message()), HasSubstr("CUDA: cudaGetDeviceCount "));
}

TEST(NcclLibraryTest, ItTellsItsVersion) {
  auto api = LoadNccl();
  if (!api.ok()) GTEST_SKIP() << api.status();
  EXPECT_THAT((*api)->Version().value(), ::testing::StartsWith("2."));
}

// A rank draws its id before it knows what its device can do.
TEST(NcclLibraryTest, UniqueIdsNeedNoDevice) {
  auto api = LoadNccl();
  if (!api.ok()) GTEST_SKIP() << api.status();
  const auto first = (*api)->UniqueId(), second = (*api)->UniqueId();
  if (!first.ok()) GTEST_SKIP() << "no network interface for NCCL: " << first.status();
  EXPECT_EQ(first->size(), 128u);
  EXPECT_NE(first.value(), second.value());
}

TEST(NcclLibraryTest, AnIdThatIsNoneIsRefused) {
  auto api = LoadNccl();
  if (!api.ok()) GTEST_SKIP() << api.status();
  const std::string id = "short";
  EXPECT_EQ((*api)->Join({&id, 1}, 0, 2, {}).status().message(),
            "NCCL's unique id has 5 bytes, not 128");
}

TEST(NcclLibraryTest, AHostWithoutADeviceSaysSo) {
  auto api = LoadNccl();
  if (!api.ok()) GTEST_SKIP() << api.status();
  const absl::Status status = (*api)->UseDevice(0);
  if (status.ok()) GTEST_SKIP() << "this host has a CUDA device";
  EXPECT_THAT(std::string(status.message()), HasSubstr("CUDA: "));
}

}  // namespace
}  // namespace dp::engine
