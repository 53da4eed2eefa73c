#include "dp/tensor.h"

#include <utility>

#include "dp/data_parallel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/fake_gpus.h"
#include "worker/library/testing/thrown.h"

// Tensors on GPUs.

namespace dp::distributed {
namespace {

using library::ErrorOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Floats = std::vector<float>;

class GpuTensorTest : public library::FakeGpus {};

std::vector<float> OnHost(const Tensor& tensor) {
  const Tensor host = tensor.to("cpu");
  const auto values = host.values<float>();
  return {values.begin(), values.end()};
}

TEST_F(GpuTensorTest, MovesBetweenAllMemories) {
  const Tensor host({2, 2}, Floats{1, 2, 3, 4});
  EXPECT_EQ(host.device(), "cpu");
  const Tensor on_one = host.to("cuda:1"), on_two = on_one.to("cuda:2"),
               again = on_two.to("cuda:2");
  EXPECT_EQ(on_one.device(), "cuda:1");
  EXPECT_EQ(again.device(), "cuda:2");
  EXPECT_THAT(again.shape(), ElementsAre(2, 2));
  EXPECT_EQ(again.type(), DataType::kFloat32);
  EXPECT_NE(again.elements().data, on_two.elements().data);
  EXPECT_THAT(OnHost(again), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(again.to("cpu:3").device(), "cpu");
}

TEST_F(GpuTensorTest, ACopyHasMemoryOfItsOwnAndAMoveTakesIt) {
  Tensor first = Tensor({2}, Floats{1, 2}).to("cuda:0");
  const void* const memory = first.elements().data;
  Tensor copy = first;
  EXPECT_NE(copy.elements().data, memory);
  Tensor moved = std::move(first);
  EXPECT_EQ(moved.elements().data, memory);
  EXPECT_EQ(gpus_.live(), 2);
  copy = moved;
  moved = Tensor({1}, Floats{7});
  EXPECT_THAT(OnHost(copy), ElementsAre(1, 2));
  EXPECT_THAT(OnHost(moved), ElementsAre(7));
  EXPECT_EQ(gpus_.live(), 1);
}

TEST_F(GpuTensorTest, ElementsThatNoMemoryHoldsAreRejected) {
  const DistError unknown = ErrorOf([] { zeros({2}, static_cast<DataType>(99), "cuda:0"); });
  EXPECT_EQ(unknown.kind(), ErrorKind::kInvalidArgument);
  EXPECT_STREQ(unknown.what(), "element type 99 is unknown");
  const DistError huge = ErrorOf([] { GpuValues(0, DataType::kFloat32, size_t{1} << 62); });
  EXPECT_EQ(huge.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(huge.what(), HasSubstr("4611686018427387904 elements are more than memory can have"));
}

TEST_F(GpuTensorTest, ZerosAreWrittenBeforeLaterWork) {
  const Tensor made = zeros({3}, DataType::kInt32, "cuda:2");
  EXPECT_THAT(made.to("cpu").values<int32_t>(), ElementsAre(0, 0, 0));
  EXPECT_EQ(zeros({2}, DataType::kFloat16, "cpu").elements().bytes, 4);
  EXPECT_EQ(empty({2}, DataType::kFloat64, "cuda:1").elements().bytes, 16);
  EXPECT_EQ(zeros({0, 4}, DataType::kFloat32, "cuda:1").count(), 0);
}

TEST_F(GpuTensorTest, ACopyToTheHostAwaitsTheGpu) {
  Tensor tensor = zeros({1}, DataType::kFloat32, "cuda:1");
  auto* const value = static_cast<float*>(tensor.elements().data);
  EXPECT_TRUE(gpus_.UseDevice(1).ok());
  gpus_.Enqueue(nullptr, [value] { *value = 5; });
  EXPECT_THAT(OnHost(tensor), ElementsAre(5));
  gpus_.Enqueue(nullptr, [value] { *value = 6; });
  EXPECT_THAT(OnHost(tensor.to("cuda:2")), ElementsAre(6));
  gpus_.Enqueue(nullptr, [value] { *value = 7; });
  EXPECT_THAT(OnHost(tensor.to("cuda:1")), ElementsAre(7));
}

TEST_F(GpuTensorTest, TheCallingThreadsGpuStaysChosen) {
  EXPECT_TRUE(gpus_.UseDevice(1).ok());
  const Tensor tensor = zeros({1}, DataType::kFloat32, "cuda");
  EXPECT_EQ(tensor.device(), "cuda:1");
  EXPECT_EQ(tensor.to("cuda:2").device(), "cuda:2");
  EXPECT_EQ(gpus_.ChosenDevice().value(), 1);
}

TEST_F(GpuTensorTest, TheHostCannotReadAGpusElements) {
  Tensor tensor = zeros({1}, DataType::kFloat32, "cuda:1");
  const DistError error = ErrorOf([&] { tensor.values<float>(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_STREQ(error.what(),
               "Tensor: the elements lie on cuda:1, where the host cannot read them; call values "
               "of to(\"cpu\"), or give elements() to a kernel");
  EXPECT_THAT(ErrorOf([&] { std::as_const(tensor).values<int32_t>(); }).what(),
              HasSubstr("lie on cuda:1"));
}

TEST_F(GpuTensorTest, DevicesThatAreNotThereAreNamed) {
  const Tensor tensor({1}, Floats{1});
  const auto error = [&](const std::string& device) { return ErrorOf([&] { tensor.to(device); }); };
  EXPECT_EQ(error("cuda:3").kind(), ErrorKind::kInvalidArgument);
  EXPECT_STREQ(error("cuda:3").what(),
               "to: device 'cuda:3' does not exist: this process sees 3 GPUs, from cuda:0 on; "
               "nvidia-smi and CUDA_VISIBLE_DEVICES list them");
  EXPECT_STREQ(error("gpu:0").what(),
               "to: device 'gpu:0' is unknown; give cpu:0, cpu:1, ..., or cuda:0, cuda:1, ...");
  EXPECT_EQ(error("mps").kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(ErrorOf([] { zeros({-1}, DataType::kFloat32, "cuda:0"); }).what(),
              HasSubstr("zeros: the shape is [-1]"));
  engine::FakeCuda none(0);
  library::ReplaceCuda(&none);
  EXPECT_EQ(error("cuda:0").kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(
      error("cuda:0").what(),
      AllOf(HasSubstr("device 'cuda:0': this process sees no GPU (CUDA: cudaGetDeviceCount"),
            HasSubstr("nvidia-smi and CUDA_VISIBLE_DEVICES list them")));
  library::ReplaceCuda(&gpus_);
}

TEST_F(GpuTensorTest, AGpuWithoutRoomIsALimit) {
  gpus_.LimitRoom(100);
  const DistError error = ErrorOf([] { zeros({26}, DataType::kFloat32, "cuda:1"); });
  EXPECT_EQ(error.kind(), ErrorKind::kLimit);
  EXPECT_THAT(error.what(), HasSubstr("GPU 1 has no room for 104 more bytes"));
  const Tensor fits = zeros({25}, DataType::kFloat32, "cuda:1");
  EXPECT_EQ(ErrorOf([&] { const Tensor copy = fits; }).kind(), ErrorKind::kLimit);
  EXPECT_EQ(gpus_.live(), 1);
}

TEST_F(GpuTensorTest, PartsAlongEveryDimensionGoToTheirGpusAndBack) {
  Floats numbers(24);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = float(i);
  const Tensor host({2, 3, 4}, numbers);
  const std::vector<std::string> gpus = {"cuda:0", "cuda:2"};
  for (const Tensor& whole : {host, host.to("cuda:2")})
    for (const int dim : {0, 1, 2}) {
      const std::vector<Arguments> scattered = scatter({whole}, gpus, dim);
      std::vector<Tensor> parts;
      for (const Arguments& part : scattered) parts.push_back(std::get<Tensor>(part[0]));
      EXPECT_EQ(parts[0].device(), "cuda:0");
      EXPECT_EQ(parts[1].device(), "cuda:2");
      for (const char* device : {"cuda:0", "cuda:1", "cpu:0"}) {
        const Tensor joined = gather(parts, device, dim);
        EXPECT_EQ(joined.device(), device == std::string("cpu:0") ? "cpu" : device);
        EXPECT_EQ(OnHost(joined), numbers) << whole.device() << " " << dim << " " << device;
      }
    }
  const Tensor column = std::get<Tensor>(scatter({host}, gpus, 2)[1][0]);
  EXPECT_THAT(OnHost(column), ElementsAre(2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23));
}

}  // namespace
}  // namespace dp::distributed
