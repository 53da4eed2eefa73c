#include "worker/trainer/safetensors.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::trainer {
namespace {

using ::testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

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

TEST(WriteFileAtomicallyTest, ReplacesTheFileAndLeavesNoTemporary) {
  const std::string path = ::testing::TempDir() + "weights.safetensors";
  ASSERT_TRUE(WriteFileAtomically(path, "old contents").ok());
  ASSERT_TRUE(WriteFileAtomically(path, "new").ok());
  EXPECT_EQ(ReadFile(path).c_str(), std::string("new"));
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST(WriteFileAtomicallyTest, ADirectoryThatIsMissingIsNamed) {
  const absl::Status status = WriteFileAtomically("/nonexistent/weights", "x");
  EXPECT_THAT(status.message(), HasSubstr("/nonexistent/weights"));
}

TEST(CheckWritableTest, LeavesNothingBehindAndRefusesADirectory) {
  const std::string path = ::testing::TempDir() + "fresh.safetensors";
  EXPECT_TRUE(CheckWritable(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  EXPECT_FALSE(CheckWritable("/nonexistent/weights").ok());
  EXPECT_THAT(CheckWritable(::testing::TempDir()).message(), HasSubstr("is a directory"));
}

TEST(CheckWritableTest, WhatIsNoRegularFileIsLeftAlone) {
  const std::string pipe = ::testing::TempDir() + "check_writable.fifo";
  std::remove(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(CheckWritable(pipe).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  std::remove(pipe.c_str());
}

TEST(CheckWritableTest, APathTooLongForTheSystemIsAnError) {
  EXPECT_FALSE(CheckWritable("/tmp/" + std::string(5000, 'x')).ok());
}

}  // namespace
}  // namespace dp::trainer
