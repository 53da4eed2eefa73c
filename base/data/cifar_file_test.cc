#include "base/data/cifar_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/testing/scratch_dir.h"

namespace dp::data {
namespace {

using ::testing::HasSubstr;

class CifarFileTest : public testing::Test {
 protected:
  // A record whose pixels all have one value.
  static std::string Record(const std::string& labels, char pixel) {
    return labels + std::string(3 * 32 * 32, pixel);
  }
  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_.path() / name, std::ios::binary) << bytes;
  }

  ScratchDir dir_;
};

TEST_F(CifarFileTest, BatchesFollowOneAnother) {
  Write("data_batch_1.bin", Record("\3", 10) + Record("\1", 11));
  Write("data_batch_2.bin", Record("\x09", 12));
  Write("test_batch.bin", Record("\2", 13));
  const auto train = ReadCifarSet(dir_.path(), Cifar::k10, Split::kTrain);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(train->inputs.size(), 3);
  EXPECT_EQ(train->inputs.shape(), (model::Shape{3, 32, 32}));
  EXPECT_EQ(train->labels.at(2), 9);
  EXPECT_EQ(train->inputs.bytes(1)[0], 11);
  EXPECT_EQ(train->inputs.bytes(2)[3071], 12);
  EXPECT_EQ(ReadCifarSet(dir_.path(), Cifar::k10, Split::kTest)->labels.at(0), 2);
}

TEST_F(CifarFileTest, TheFineLabelCounts) {
  Write("train.bin", Record("\1\x63", 10));
  const auto train = ReadCifarSet(dir_.path(), Cifar::k100, Split::kTrain);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(train->labels.at(0), 0x63);
  EXPECT_EQ(train->inputs.bytes(0)[0], 10);
}

TEST_F(CifarFileTest, ATruncatedFileIsAnErrorAtEveryByte) {
  const std::string whole = Record("\3", 10);
  for (const size_t size : {size_t{0}, size_t{1}, whole.size() - 1}) {
    Write("data_batch_1.bin", whole.substr(0, size));
    EXPECT_THAT(ReadCifarSet(dir_.path(), Cifar::k10, Split::kTrain).status().message(),
                HasSubstr("data_batch_1.bin: has " + std::to_string(size) +
                          " bytes; expected records of 3073 bytes"));
  }
}

TEST_F(CifarFileTest, AGapBetweenBatchesIsAnError) {
  Write("data_batch_1.bin", Record("\3", 10));
  Write("data_batch_3.bin", Record("\3", 10));
  const auto train = ReadCifarSet(dir_.path(), Cifar::k10, Split::kTrain).status();
  EXPECT_TRUE(absl::IsNotFound(train));
  EXPECT_THAT(train.message(), HasSubstr("data_batch_2.bin"));
}

TEST_F(CifarFileTest, ALabelThatTheSetLacksIsNamedWithItsRecord) {
  Write("data_batch_1.bin", Record("\3", 10) + Record("\x0b", 10));
  EXPECT_THAT(ReadCifarSet(dir_.path(), Cifar::k10, Split::kTrain).status().message(),
              HasSubstr("data_batch_1.bin: record 1 has label 11; CIFAR-10 has 0 to 9"));
}

TEST_F(CifarFileTest, WhatIsMissingIsNamed) {
  const auto file = ReadCifarSet(dir_.path(), Cifar::k10, Split::kTrain).status();
  EXPECT_TRUE(absl::IsNotFound(file));
  EXPECT_THAT(file.message(), HasSubstr("data_batch_1.bin"));
  const auto dir = ReadCifarSet("/none", Cifar::k100, Split::kTrain).status();
  EXPECT_THAT(dir.message(), HasSubstr("data directory /none does not exist"));
}

}  // namespace
}  // namespace dp::data
