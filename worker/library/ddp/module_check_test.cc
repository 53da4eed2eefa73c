#include "worker/library/ddp/module_check.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/thrown.h"

namespace dp::library {
namespace {

using distributed::Buffer;
using distributed::DistError;
using distributed::DistributedDataParallelOptions;
using distributed::ErrorKind;
using distributed::Parameter;
using ::testing::HasSubstr;

class ModuleCheckTest : public ::testing::Test {
 protected:
  // The message of the kInvalidArgument with which these are rejected.
  std::string Rejected(const std::vector<Parameter>& parameters,
                       const std::vector<Buffer>& buffers = {}) {
    const DistError error = ErrorOf([&] { CheckModule(parameters, buffers); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  std::string RejectedOptions(const DistributedDataParallelOptions& options,
                              std::optional<int> gpu = std::nullopt) {
    return ErrorOf([&] { CheckOptions(options, gpu); }).what();
  }

  std::vector<float> six_ = std::vector<float>(6), gradient_ = std::vector<float>(6);
  std::vector<double> wide_ = std::vector<double>(6);
  std::vector<int64_t> integers_ = std::vector<int64_t>(6);
};

TEST_F(ModuleCheckTest, ShapesAndGradientsFitTheValues) {
  CheckModule({{"w", {2, 3}, six_, gradient_}}, {{"steps", {6}, integers_}});
  EXPECT_THAT(Rejected({{"w", {2, 4}, six_}}),
              HasSubstr("parameter w has the shape 2x4, which is 8 elements, and 6 values"));
  EXPECT_THAT(Rejected({{"w", {-1, 6}, six_}}), HasSubstr("no axis is negative"));
  EXPECT_THAT(Rejected({}, {{"mean", {7}, six_}}), HasSubstr("buffer mean has the shape 7"));
  EXPECT_THAT(Rejected({{"w", {6}, six_, wide_}}),
              HasSubstr("parameter w is 6 float32, and its gradient is 6 float64"));
}

TEST_F(ModuleCheckTest, AGradientInTheMemoryOfItsValuesIsNamed) {
  const std::span<float> begin = std::span(six_).first(3), end = std::span(six_).last(3);
  CheckModule({{"w", {3}, begin, end}}, {});
  const std::span<float> middle = std::span(six_).subspan(2, 3);
  for (const std::span<float> gradient : {begin, middle})
    EXPECT_THAT(Rejected({{"w", {3}, begin, gradient}}),
                HasSubstr("the gradient of parameter w lies in the memory of its values; give it "
                          "memory of its own"));
}

TEST_F(ModuleCheckTest, NamesAreUnique) {
  EXPECT_THAT(Rejected({{"", {6}, six_}}), HasSubstr("parameter 0 has no name"));
  EXPECT_THAT(Rejected({{"w", {6}, six_}}, {{"w", {6}, six_}}), HasSubstr("named w"));
}

TEST_F(ModuleCheckTest, OnlyFloatsLearn) {
  EXPECT_THAT(Rejected({{"steps", {6}, integers_}}),
              HasSubstr("parameter steps is of int64; make it a buffer"));
}

TEST_F(ModuleCheckTest, OptionsAreNamedWithTheirValues) {
  CheckOptions({.device_ids = {"cpu:0"}, .output_device = "cpu"}, std::nullopt);
  CheckOptions({.device_ids = {"cuda:3"}, .output_device = "cuda"}, 3);
  EXPECT_THAT(RejectedOptions({.device_ids = {"cpu:0", "cpu:1"}}),
              HasSubstr("device_ids names 2 devices (cpu:0, cpu:1); a rank has one"));
  EXPECT_THAT(RejectedOptions({.output_device = "cuda:0"}),
              HasSubstr("device cuda:0 is not that of the group, whose backend is not nccl; give "
                        "cpu"));
  EXPECT_THAT(RejectedOptions({.device_ids = {"cuda:0"}}, 3), HasSubstr("give cuda:3"));
  EXPECT_THAT(RejectedOptions({.device_ids = {"cpu"}}, 3), HasSubstr("give cuda:3"));
  EXPECT_THAT(RejectedOptions({.bucket_cap_mb = 0}), HasSubstr("bucket_cap_mb is 0"));
  EXPECT_THAT(RejectedOptions({.reduce_type = distributed::DataType::kInt32}),
              HasSubstr("reduce_type is int32"));
}

}  // namespace
}  // namespace dp::library
