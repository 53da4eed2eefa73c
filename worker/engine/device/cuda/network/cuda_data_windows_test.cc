#include "worker/engine/device/cuda/network/cuda_data_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dp::engine::cuda {
namespace {

using ::testing::ElementsAre;

const std::vector<uint16_t> kNine(9), kEmpty(0), kSeven(7);

TEST(CudaDataWindowsTest, NoWindowReachesOverTheEndOfAFile) {
  const StoredTokens stored{{{kNine, 0}, {kEmpty, 2}, {kSeven, 2}}};
  // Windows of 4 tokens and one label behind: 0-4 and 4-8 of the first file, 0-4 of the last.
  EXPECT_THAT(WindowsOf(stored, /*context=*/4, /*samples=*/3), ElementsAre(0, 4, 9));
}

TEST(CudaDataWindowsTest, BytesAreThoseOfTokensAndWindows) {
  EXPECT_EQ(StoredBytes(StoredTokens{{{kNine, 0}}}, 2), 9 * 2 + 2 * 8);
  const std::vector<uint8_t> images(30), labels(3);
  EXPECT_EQ(StoredBytes(StoredImages{images, labels}, 3), 33);
  EXPECT_EQ(StoredBytes(Storage(), 3), 0);
}

TEST(CudaDataWindowsTest, HalfOfWhatIsFreeIsLeft) {
  EXPECT_TRUE(FitsOnDevice(50, 100));
  EXPECT_FALSE(FitsOnDevice(51, 100));
}

}  // namespace
}  // namespace dp::engine::cuda
