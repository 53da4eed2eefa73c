#include "base/data/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/data/sample_set.h"

namespace dp::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Rows of one element of this type, with the bytes of `values` in the order of this host.
template <typename Element>
Rows RowsOfOne(ElementType type, const std::vector<Element>& values) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(values.size() * sizeof(Element));
  std::memcpy(bytes->data(), values.data(), bytes->size());
  Rows rows(type, false, {1});
  rows.Append({bytes->data(), sizeof(Element), static_cast<int64_t>(values.size())}, bytes);
  return rows;
}

float First(const Rows& rows, int64_t row) {
  float value = 0;
  rows.Read(row, absl::MakeSpan(&value, 1));
  return value;
}

TEST(RowsTest, EveryTypeIsConverted) {
  EXPECT_EQ(First(RowsOfOne<uint8_t>(ElementType::kUint8, {200}), 0), 200);
  EXPECT_EQ(First(RowsOfOne<int8_t>(ElementType::kInt8, {-3}), 0), -3);
  EXPECT_EQ(First(RowsOfOne<int16_t>(ElementType::kInt16, {-300}), 0), -300);
  EXPECT_EQ(First(RowsOfOne<int32_t>(ElementType::kInt32, {-70000}), 0), -70000);
  EXPECT_EQ(First(RowsOfOne<int64_t>(ElementType::kInt64, {1 << 20}), 0), 1 << 20);
  EXPECT_EQ(First(RowsOfOne<float>(ElementType::kFloat32, {0.25f}), 0), 0.25f);
  EXPECT_EQ(First(RowsOfOne<double>(ElementType::kFloat64, {-0.5}), 0), -0.5f);
}

TEST(RowsTest, BytesMayStandInTheOtherOrder) {
  const uint8_t bytes[] = {0x01, 0x02, 0x3f, 0x80, 0, 0};
  Rows shorts(ElementType::kInt16, true, {1});
  shorts.Append({bytes, 2, 1}, nullptr);
  EXPECT_EQ(First(shorts, 0), 0x102);
  Rows floats(ElementType::kFloat32, true, {1});
  floats.Append({bytes + 2, 4, 1}, nullptr);
  EXPECT_EQ(First(floats, 0), 1.0f);
}

TEST(RowsTest, RowsOfSeveralBlocksAreNumberedOn) {
  const uint8_t first[] = {9, 1, 2, 9, 3, 4};
  const uint8_t second[] = {5, 6};
  Rows rows(ElementType::kUint8, false, {2});
  rows.Append({first + 1, 3, 2}, nullptr);
  rows.Append({second, 2, 1}, nullptr);
  std::vector<float> row(2);
  rows.Read(1, absl::MakeSpan(row));
  EXPECT_THAT(row, ElementsAre(3, 4));
  rows.Read(2, absl::MakeSpan(row));
  EXPECT_THAT(row, ElementsAre(5, 6));
  EXPECT_EQ(rows.size(), 3);
  EXPECT_FALSE(rows.contiguous_bytes().has_value());
}

TEST(LabelsTest, ClassesAreThoseThatLabelsShow) {
  const auto labels = LabelsFrom(RowsOfOne<int64_t>(ElementType::kInt64, {3, 0, 300}), "l");
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_EQ(labels->classes(), 301);
  EXPECT_EQ(labels->at(2), 300);
  EXPECT_TRUE(labels->bytes().empty());
  EXPECT_EQ(LabelsFrom(RowsOfOne<double>(ElementType::kFloat64, {3, 1}), "l")->bytes().size(), 2u);
}

TEST(LabelsTest, ALabelThatIsNoClassIsNamed) {
  EXPECT_EQ(LabelsFrom(RowsOfOne<int8_t>(ElementType::kInt8, {1, -2}), "/l").status().message(),
            "/l: the label of sample 1 is -2; expected a whole number from 0 to 16777215; "
            "number the classes from 0");
  for (const double value : {0.5, 1e300, std::nan("")}) {
    EXPECT_THAT(
        LabelsFrom(RowsOfOne<double>(ElementType::kFloat64, {value}), "/l").status().message(),
        HasSubstr("the label of sample 0 has a fraction"));
  }
}

}  // namespace
}  // namespace dp::data
