#include "worker/library/data_parallel/tensor_parts.h"

#include <limits>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/thrown.h"

namespace dp::library {
namespace {

using distributed::ErrorKind;
using distributed::Tensor;
using ::testing::ElementsAre;

// 0, 1, 2, ... in this shape.
template <typename T = float>
Tensor Counting(std::vector<int64_t> shape) {
  std::vector<T> values(
      std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
  std::iota(values.begin(), values.end(), T{});
  return {std::move(shape), std::move(values)};
}

std::vector<float> ValuesOf(const Tensor& tensor) {
  return {tensor.values<float>().begin(), tensor.values<float>().end()};
}

std::vector<Tensor> Split(const Tensor& whole, size_t dim, const std::vector<int64_t>& sizes) {
  return SplitTensor(whole, dim, sizes, std::vector<Device>(sizes.size()));
}

std::string Rejected(const std::function<void()>& call) {
  const distributed::DistError error = ErrorOf(call);
  EXPECT_EQ(error.kind(), distributed::ErrorKind::kInvalidArgument);
  return error.what();
}

TEST(PartSizesTest, DealsTheCeilingAndLeavesDevicesIdle) {
  EXPECT_THAT(PartSizes(30, 3), ElementsAre(10, 10, 10));
  EXPECT_THAT(PartSizes(10, 4), ElementsAre(3, 3, 3, 1));
  EXPECT_THAT(PartSizes(5, 4), ElementsAre(2, 2, 1));
  EXPECT_THAT(PartSizes(2, 4), ElementsAre(1, 1));
  EXPECT_THAT(PartSizes(0, 4), ElementsAre(0));
}

TEST(TensorPartsTest, SplitsAlongTheFirstDimension) {
  const std::vector<Tensor> parts = Split(Counting({3, 2}), 0, {2, 1});
  EXPECT_THAT(parts[0].shape(), ElementsAre(2, 2));
  EXPECT_THAT(ValuesOf(parts[0]), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(parts[1].shape(), ElementsAre(1, 2));
  EXPECT_THAT(ValuesOf(parts[1]), ElementsAre(4, 5));
}

TEST(TensorPartsTest, SplitsAlongAnInnerDimension) {
  const std::vector<Tensor> parts = Split(Counting({2, 3, 2}), 1, {2, 1});
  EXPECT_THAT(parts[0].shape(), ElementsAre(2, 2, 2));
  EXPECT_THAT(ValuesOf(parts[0]), ElementsAre(0, 1, 2, 3, 6, 7, 8, 9));
  EXPECT_THAT(ValuesOf(parts[1]), ElementsAre(4, 5, 10, 11));
}

TEST(TensorPartsTest, JoiningIsTheInverseOfSplitting) {
  for (const size_t dim : {0, 1, 2}) {
    const Tensor whole = Counting({4, 3, 5});
    const Tensor joined = JoinTensors(Split(whole, dim, PartSizes(whole.shape()[dim], 2)), dim, {});
    EXPECT_EQ(joined.shape(), whole.shape());
    EXPECT_EQ(ValuesOf(joined), ValuesOf(whole)) << "along " << dim;
  }
}

TEST(TensorPartsTest, KeepsTheTypeOfElements) {
  const std::vector<Tensor> parts = Split(Counting<int64_t>({4}), 0, {3, 1});
  EXPECT_THAT(parts[1].values<int64_t>(), ElementsAre(3));
  EXPECT_THAT(JoinTensors(parts, 0, {}).values<int64_t>(), ElementsAre(0, 1, 2, 3));
}

TEST(TensorPartsTest, ScalarsJoinToAVector) {
  const std::vector<Tensor> scalars = {Tensor({}, std::vector<float>{3}),
                                       Tensor({}, std::vector<float>{5})};
  const Tensor joined = JoinTensors(scalars, 0, {});
  EXPECT_THAT(joined.shape(), ElementsAre(2));
  EXPECT_THAT(ValuesOf(joined), ElementsAre(3, 5));
}

TEST(TensorPartsTest, AnEmptyBatchIsOneEmptyPart) {
  const std::vector<Tensor> parts = Split(Counting({0, 2}), 0, PartSizes(0, 3));
  EXPECT_THAT(JoinTensors(parts, 0, {}).shape(), ElementsAre(0, 2));
}

TEST(TensorPartsTest, SizesThatDoNotAddUpAreALimit) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const std::vector<Tensor> parts(2, distributed::zeros({kMost, 0}));
  EXPECT_EQ(ErrorOf([&] { JoinTensors(parts, 0, {}); }).kind(), ErrorKind::kLimit);
  EXPECT_THAT(PartSizes(kMost, 2), ElementsAre(kMost / 2 + 1, kMost / 2));
}

TEST(TensorPartsTest, OutputsThatDoNotFitAreRejected) {
  const auto join = [](const std::vector<Tensor>& parts, size_t dim = 0) {
    return Rejected([&] { JoinTensors(parts, dim, {}); });
  };
  EXPECT_EQ(join({}), "gather: there are no outputs; give one at least");
  EXPECT_EQ(join({Counting({2, 3}), Counting({2, 2})}),
            "gather: outputs of float32 [2, 3] and float32 [2, 2] cannot be joined along dimension "
            "0; they may differ there only");
  EXPECT_EQ(join({Counting({2}), Counting<double>({2})}),
            "gather: outputs of float32 [2] and float64 [2] cannot be joined along dimension 0; "
            "they may differ there only");
  EXPECT_EQ(join({Counting({2})}, 1),
            "gather: an output of the shape [2] has no dimension 1; give another dim");
}

TEST(TensorTest, ValuesFillTheShapeAndHaveOneType) {
  EXPECT_EQ(Rejected([] {
              Tensor({2, 2}, std::vector<float>(3));
            }),
            "Tensor: 3 values do not fill the shape [2, 2]; give as many as it has");
  EXPECT_EQ(Rejected([] {
              Tensor({-1, -2}, std::vector<float>(2));
            }),
            "Tensor: 2 values do not fill the shape [-1, -2]; give as many as it has");
  constexpr int64_t kHuge = int64_t{1} << 32;  // its square has no bits left of 64
  EXPECT_EQ(Rejected([] {
              Tensor({kHuge, kHuge}, std::vector<float>());
            }),
            "Tensor: 0 values do not fill the shape [4294967296, 4294967296]; give as many as it "
            "has");
  EXPECT_EQ(Rejected([] {
              distributed::zeros({kHuge, kHuge});
            }),
            "zeros: the shape [4294967296, 4294967296] has more elements than memory can have");
  EXPECT_EQ(Rejected([] { Counting({2}).values<int32_t>(); }),
            "Tensor: the elements are float32, not int32; ask for values of their type");
  EXPECT_EQ(Rejected([] {
              distributed::zeros({2, -1});
            }),
            "zeros: the shape is [2, -1]; give sizes of 0 or more");
  EXPECT_EQ(Tensor().count(), 0);
  EXPECT_EQ(distributed::zeros({2, 3}, distributed::DataType::kBfloat16).elements().bytes, 12);
}

TEST(TensorTest, ZerosBeyondAllMemoryAreALimit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end a program that asks for so much memory";
#endif
  const distributed::DistError error = ErrorOf([] {
    distributed::zeros({int64_t{1} << 40, 1 << 18}, distributed::DataType::kUint8);
  });
  EXPECT_EQ(error.kind(), distributed::ErrorKind::kLimit);
  EXPECT_STREQ(error.what(),
               "zeros: no memory for the 288230376151711744 bytes of the shape [1099511627776, "
               "262144]; give a smaller shape, or raise the process's memory limit");
}

}  // namespace
}  // namespace dp::library
