#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/nccl_api.h"

// The real library, as far as it goes without a device.

namespace dp::engine {
namespace {

using ::testing::HasSubstr;

TEST(NcclLibraryTest, NcclIsLoadedOrSaysWhyNot) {
  auto api = LoadNccl();
  if (api.ok()) return;
  EXPECT_THAT(std::string(api.status().message()),
              ::testing::AnyOf(HasSubstr("built without NCCL"), HasSubstr("cannot load lib")));
}

TEST(NcclLibraryTest, ItTellsItsVersion) {
  auto api = LoadNccl();
  if (!api.ok()) GTEST_SKIP() << api.status();
  EXPECT_THAT((*api)->Version().value(), ::testing::StartsWith("2."));
}

// A rank draws its id before it is known what its device can do.
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
