#include "proto/weights/safetensors.h"

#include <cstring>

#include "gtest/gtest.h"

namespace dp {
namespace {

TEST(SafetensorsTest, EncodesLengthHeaderAndData) {
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  const std::vector<float> bias = {7};
  const std::string encoded = EncodeSafetensors({{"w", {2, 3}, weight}, {"b", {1}, bias}});
  const std::string header = R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[24,28]}})";
  const size_t length = static_cast<unsigned char>(encoded[0]);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(encoded.substr(8, header.size()), header);
  ASSERT_EQ(encoded.size(), 8 + length + 7 * sizeof(float));
  float last = 0;
  std::memcpy(&last, encoded.data() + encoded.size() - sizeof(float), sizeof(float));
  EXPECT_EQ(last, 7);
}

std::string File(const std::string& header, size_t data_bytes) {
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + std::string(data_bytes, '\0');
}

TEST(SafetensorsTest, DecodesWhatItEncodes) {
  const std::vector<float> weight = {1, -2, 3e-38f, 4, 5, 6};
  const std::vector<float> bias = {7};
  const std::string encoded = EncodeSafetensors({{"w", {2, 3}, weight}, {"b", {1}, bias}});
  const auto tensors = DecodeSafetensors(encoded);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->at("w").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(tensors->at("w").data.data(), weight.data(), 24), 0);
  EXPECT_EQ(tensors->at("b").data.size(), sizeof(float));
}

TEST(SafetensorsTest, TextsAreReadBackAndAreNoTensor) {
  const std::vector<float> values = {1};
  const SafetensorsMetadata texts = {{"a", "{\"b\": \"c\\n\"}\n\t\x01"}, {"\"", "\xc3\xa4"}};
  const std::string encoded = EncodeSafetensors({{"w", {1}, values}}, {}, texts);
  EXPECT_EQ(*ReadSafetensorsMetadata(encoded), texts);
  EXPECT_EQ(DecodeSafetensors(encoded)->size(), 1u);
  EXPECT_EQ(*ReadSafetensorsMetadata(EncodeSafetensors({})), SafetensorsMetadata());
}

TEST(SafetensorsTest, AFileCutAnywhereIsRefused) {
  const std::vector<float> values = {1, 2, 3};
  const std::string encoded = EncodeSafetensors({{"w", {3}, values}});
  for (size_t size = 0; size < encoded.size(); ++size) {
    EXPECT_FALSE(DecodeSafetensors(encoded.substr(0, size)).ok()) << size;
  }
}

TEST(SafetensorsTest, ACutHeaderSaysSo) {
  const std::string encoded = File("{}", 0);
  EXPECT_EQ(DecodeSafetensors(encoded.substr(0, 9)).status().message(),
            "no safetensors file: its first bytes say that a header of 2 bytes follows, and 1 "
            "follow; it is truncated, so copy it again, or of another format");
}

TEST(SafetensorsTest, HolesOverlapsAndLiesAboutSizesAreRefused) {
  const std::string one = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_TRUE(DecodeSafetensors(File("{" + one + "}", 4)).ok());
  EXPECT_FALSE(DecodeSafetensors(File("{" + one + "}", 8)).ok());  // data of no tensor
  EXPECT_FALSE(DecodeSafetensors(File("{" + one + "}", 3)).ok());  // beyond the end
  const std::string same = R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_FALSE(DecodeSafetensors(File("{" + one + "," + same + "}", 4)).ok());
  const std::string behind = R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]})";
  EXPECT_FALSE(DecodeSafetensors(File("{" + one + "," + behind + "}", 12)).ok());
  const std::string wrong = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]})";
  EXPECT_FALSE(DecodeSafetensors(File("{" + wrong + "}", 4)).ok());
  const std::string huge =
      R"("a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})";
  EXPECT_FALSE(DecodeSafetensors(File("{" + huge + "}", 4)).ok());
  EXPECT_FALSE(DecodeSafetensors(File("[]", 0)).ok());
}

TEST(SafetensorsTest, OtherTypesAreNamed) {
  const std::string half = R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})";
  EXPECT_EQ(DecodeSafetensors(File(half, 4))->at("a").type, "F16");
  const std::string new_type = R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,4]}})";
  const absl::Status status = DecodeSafetensors(File(new_type, 4)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(), "a tensor is of type F4, which this release does not know");
}

TEST(SafetensorsTest, CountsAreWholeNumbersBesideTensors) {
  const std::vector<float> values = {1, 2, 3};
  const std::string encoded = EncodeSafetensors({{"w", {3}, values}}, {{"steps", 1234567890123}});
  const auto tensors = DecodeSafetensors(encoded);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  const EncodedTensor& steps = tensors->at("steps");
  EXPECT_EQ(steps.type, "I64");
  EXPECT_TRUE(steps.shape.empty());
  int64_t read = 0;
  std::memcpy(&read, steps.data.data(), sizeof(read));
  EXPECT_EQ(read, 1234567890123);
  EXPECT_EQ(tensors->at("w").data.size(), 3 * sizeof(float));
}

}  // namespace
}  // namespace dp
