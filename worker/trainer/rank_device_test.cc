#include "worker/trainer/rank_device.h"

#include "base/store/hash_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/open_group.h"
#include "worker/trainer/testing/striped_images.h"

namespace dp::trainer {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(RankDeviceTest, ARankComputesOnTheCpuUnlessItsDaemonSaysOtherwise) {
  auto device = OpenRankDevice({}, /*threads=*/1);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->stream(), nullptr);
}

TEST(RankDeviceTest, AGpuThatCannotBeUsedFailsTheRankWithWhereToLook) {
  const auto device = OpenRankDevice({.on_gpu = true}, /*threads=*/1);
  if (device.ok()) GTEST_SKIP() << "this host has a GPU";
  EXPECT_THAT(std::string(device.status().message()), StartsWith("the GPU cannot be used: "));
  EXPECT_THAT(std::string(device.status().message()), HasSubstr("dp-trainer-cuda --self-check"));
}

class OpenGroupTest : public testing::Test {
 protected:
  absl::StatusOr<OpenedGroup> Open(const std::string& backend, bool on_gpu) {
    const Environment environment{.rank = 0, .world_size = 1, .on_gpu = on_gpu};
    return OpenGroup(backend, store_, environment, {}, model_);
  }
  HashStore store_;
  const RankModel model_ = *MakeRankModel(APlan(), StripedImages(/*size=*/8), /*batch_size=*/2);
};

TEST_F(OpenGroupTest, ARankThatIsAloneNeedsNoBackendOnAnyDevice) {
  for (const bool on_gpu : {false, true}) {
    const auto opened = Open("auto", on_gpu);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(opened->backend, "local");
  }
}

TEST_F(OpenGroupTest, ABackendThatDoesNotReachTheDeviceIsRefused) {
  EXPECT_THAT(std::string(Open("nccl", false).status().message()), HasSubstr("computes on CPUs"));
  EXPECT_THAT(std::string(Open("gloo", true).status().message()), HasSubstr("computes on a GPU"));
  EXPECT_TRUE(Open("nccl", true).ok());
  EXPECT_TRUE(Open("gloo", false).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Open("mpi", true).status()));
}

}  // namespace
}  // namespace dp::trainer
