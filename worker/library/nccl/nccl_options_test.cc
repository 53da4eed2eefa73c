#include "worker/library/nccl/nccl_options.h"

#include <map>
#include <string>

#include "gtest/gtest.h"

namespace dp::library {
namespace {

Variables With(std::map<std::string, std::string> values) {
  return [values](absl::string_view name) -> std::optional<std::string> {
    const auto found = values.find(std::string(name));
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

TEST(NcclOptionsTest, TheOptionPrecedesTheLocalRankWhichPrecedesZero) {
  EXPECT_EQ(DeviceOf({.device = 3}, With({{"LOCAL_RANK", "1"}})).value(), 3);
  EXPECT_EQ(DeviceOf({.device = {}}, With({{"LOCAL_RANK", "1"}})).value(), 1);
  EXPECT_EQ(DeviceOf({.device = {}}, With({})).value(), 0);
}

TEST(NcclOptionsTest, ADeviceThatIsNoneIsNamed) {
  EXPECT_EQ(DeviceOf({.device = -1}, With({})).status().message(),
            "option device is -1; give the number of a GPU, from 0");
  for (const char* wrong : {"-1", "x", ""})
    EXPECT_EQ(DeviceOf({.device = {}}, With({{"LOCAL_RANK", wrong}})).status(),
              absl::InvalidArgumentError(
                  "LOCAL_RANK is '" + std::string(wrong) +
                  "'; set the number of this rank on its host, from 0, or give option device"));
}

TEST(NcclOptionsTest, BlockingWaitHasTwoNamesAndTheNewerPrecedes) {
  EXPECT_FALSE(BlockingWaitOf(With({})).value());
  EXPECT_TRUE(BlockingWaitOf(With({{"NCCL_BLOCKING_WAIT", "1"}})).value());
  EXPECT_TRUE(BlockingWaitOf(With({{"TORCH_NCCL_BLOCKING_WAIT", "1"}})).value());
  EXPECT_FALSE(
      BlockingWaitOf(With({{"TORCH_NCCL_BLOCKING_WAIT", "0"}, {"NCCL_BLOCKING_WAIT", "1"}}))
          .value());
}

TEST(NcclOptionsTest, AnUnknownValueIsNamed) {
  EXPECT_EQ(BlockingWaitOf(With({{"NCCL_BLOCKING_WAIT", "yes"}})).status(),
            absl::InvalidArgumentError("NCCL_BLOCKING_WAIT is 'yes'; give one of 0, 1"));
}

TEST(NcclOptionsTest, BlockingWaitExcludesAsyncErrorHandling) {
  EXPECT_EQ(
      BlockingWaitOf(With({{"NCCL_BLOCKING_WAIT", "1"}, {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}}))
          .status(),
      absl::InvalidArgumentError(
          "NCCL_BLOCKING_WAIT and TORCH_NCCL_ASYNC_ERROR_HANDLING are both on, and exclude "
          "each other; unset TORCH_NCCL_ASYNC_ERROR_HANDLING, or set it to 0"));
  EXPECT_TRUE(
      BlockingWaitOf(With({{"NCCL_BLOCKING_WAIT", "1"}, {"NCCL_ASYNC_ERROR_HANDLING", "0"}}))
          .value());
  EXPECT_FALSE(BlockingWaitOf(With({{"NCCL_ASYNC_ERROR_HANDLING", "1"}})).value());
}

}  // namespace
}  // namespace dp::library
