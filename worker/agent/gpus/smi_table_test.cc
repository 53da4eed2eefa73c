#include "worker/agent/gpus/smi_table.h"

#include <optional>

#include "gtest/gtest.h"

namespace dp::worker {
namespace {

GpuReading ReadingIn(const std::string& memory, const std::string& used) {
  const auto readings =
      ReadingsInSmiTable("0, GPU-1, H100, " + memory + ", " + used + ", 7, 31, 0, No\n");
  EXPECT_EQ(readings.size(), 2u);
  return readings.at("GPU-1");
}

TEST(SmiTableTest, AGpuIsKnownByItsNumberAndItsUuid) {
  const auto readings = ReadingsInSmiTable("0, GPU-1, H100, 8, 4, 7, 31, 0, Yes\nsome message\n");
  ASSERT_EQ(readings.size(), 2u);
  EXPECT_EQ(readings.at("0").model, "H100");
  EXPECT_EQ(readings.at("GPU-1").memory_bytes, 8 << 20);
  EXPECT_EQ(readings.at("GPU-1").repair_pending, true);
}

TEST(SmiTableTest, NumbersThatNoGpuHasAreAbsent) {
  EXPECT_EQ(ReadingIn("[N/A]", "4").memory_bytes, std::nullopt);
  EXPECT_EQ(ReadingIn("-1", "4").memory_bytes, std::nullopt);
  // These MiB are more bytes than a number holds.
  EXPECT_EQ(ReadingIn("9223372036854775807", "4").memory_bytes, std::nullopt);
  EXPECT_EQ(ReadingIn("8", "8796093022208").memory_used_bytes, std::nullopt);
  EXPECT_EQ(ReadingIn("8", "8796093022207").memory_used_bytes, int64_t{8796093022207} << 20);
}

TEST(SmiTableTest, TheListHoldsGpusAndNoMessages) {
  const auto gpus = GpusInSmiTable("00000000:C1:00.0, GPU-1, H100\nno, devices, found\n");
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].bus_id, "00000000:c1:00.0");
}

}  // namespace
}  // namespace dp::worker
