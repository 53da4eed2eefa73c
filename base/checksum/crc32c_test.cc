#include "base/checksum/crc32c.h"

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace dp {
namespace {

std::string Bytes(size_t size, uint8_t first, int step) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>(first + static_cast<int>(i) * step);
  }
  return bytes;
}

// The vectors of RFC 3720, B.4.
TEST(Crc32cTest, HasTheValuesOfItsStandard) {
  EXPECT_EQ(ExtendCrc32c(0, std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(ExtendCrc32c(0, std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(ExtendCrc32c(0, Bytes(32, 0, 1)), 0x46dd794eu);
  EXPECT_EQ(ExtendCrc32c(0, Bytes(32, 31, -1)), 0x113fdb5cu);
  EXPECT_EQ(ExtendCrc32c(0, "123456789"), 0xe3069283u);
}

TEST(Crc32cTest, TheTablesDefineTheInstruction) {
  const std::string bytes = Bytes(300, 7, 41);
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const absl::string_view part = absl::string_view(bytes).substr(bytes.size() - size);
    EXPECT_EQ(ExtendCrc32c(5, part), ExtendCrc32cByTables(5, part)) << size;
  }
}

TEST(Crc32cTest, ThePartsInTurnGiveTheWhole) {
  const std::string bytes = Bytes(100, 1, 3);
  const absl::string_view view = bytes;
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    EXPECT_EQ(ExtendCrc32c(ExtendCrc32c(0, view.substr(0, cut)), view.substr(cut)),
              ExtendCrc32c(0, view));
  }
}

TEST(Crc32cTest, OneFlippedBitChangesIt) {
  std::string bytes = Bytes(64, 9, 5);
  const uint32_t before = ExtendCrc32c(0, bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    EXPECT_NE(ExtendCrc32c(0, bytes), before) << bit;
    bytes[bit / 8] ^= static_cast<char>(1 << (bit % 8));
  }
}

}  // namespace
}  // namespace dp
