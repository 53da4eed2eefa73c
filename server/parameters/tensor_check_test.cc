#include "server/parameters/tensor_check.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::HasSubstr;

v1::ParameterTensor ATensor(const std::string& name, const std::string& type,
                            const std::vector<int64_t>& shape, uint64_t bytes) {
  v1::ParameterTensor tensor;
  tensor.set_name(name);
  tensor.set_type(type);
  tensor.mutable_shape()->Assign(shape.begin(), shape.end());
  tensor.set_bytes(bytes);
  return tensor;
}

std::string ErrorOf(const std::vector<v1::ParameterTensor>& tensors) {
  v1::ParameterVersion version;
  for (const auto& tensor : tensors) *version.add_tensors() = tensor;
  return std::string(CheckTensors(version).status().message());
}

TEST(TensorCheckTest, TheBytesOfAllTensorsAreAddedUp) {
  v1::ParameterVersion version;
  *version.add_tensors() = ATensor("a", "F32", {2, 3}, 24);
  *version.add_tensors() = ATensor("b", "BF16", {}, 2);
  *version.add_tensors() = ATensor("c", "I64", {0, 9}, 0);
  const auto bytes = CheckTensors(version);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, 26u);
}

TEST(TensorCheckTest, WhatIsNoTensorIsNamed) {
  EXPECT_THAT(ErrorOf({ATensor("", "F32", {}, 4)}), HasSubstr("'' is no name"));
  EXPECT_THAT(ErrorOf({ATensor("a\xff", "F32", {}, 4)}), HasSubstr("'a\\377' is no name"));
  EXPECT_THAT(ErrorOf({ATensor("a", "F12", {}, 4)}), HasSubstr("'a' has the unknown type 'F12'"));
  EXPECT_THAT(ErrorOf({ATensor("a", "F32", {-1}, 4)}), HasSubstr("'a' has the extent -1"));
  EXPECT_THAT(ErrorOf({ATensor("a", "F32", {3}, 16)}),
              HasSubstr("'a' has 16 bytes, but its shape needs 12"));
  EXPECT_THAT(ErrorOf({ATensor("a", "U8", {1}, 1), ATensor("a", "U8", {1}, 1)}),
              HasSubstr("'a' occurs twice"));
  const int64_t large = int64_t{1} << 40;
  EXPECT_THAT(ErrorOf({ATensor("a", "F32", {large, large}, 16)}), HasSubstr("out of range"));
}

TEST(TensorCheckTest, TextsAreBounded) {
  v1::ParameterVersion version;
  std::string& text = (*version.mutable_metadata())["model"];
  text.assign((1 << 20) - 5, 'x');
  EXPECT_EQ(CheckMetadata(version), absl::OkStatus());
  text += 'x';
  EXPECT_THAT(CheckMetadata(version).message(), HasSubstr("have 1048577 bytes together"));
}

TEST(TensorCheckTest, ADescriptionFitsIntoAMessageWithAChunk) {
  v1::ParameterVersion version;
  const std::string name(kTensorNameBytesMax, 'n');
  while (version.ByteSizeLong() <= kVersionDescriptionBytesMax) {
    EXPECT_EQ(CheckDescription(version), absl::OkStatus());
    for (int i = 0; i < 9'000; ++i) version.add_tensors()->set_name(name);
  }
  EXPECT_EQ(CheckDescription(version).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(CheckDescription(version).message(), HasSubstr("give at most 18874368"));
}

}  // namespace
}  // namespace dp::server
