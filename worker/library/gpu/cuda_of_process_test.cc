#include "worker/library/gpu/cuda_of_process.h"

#include <optional>

#include "dp/ddp.h"
#include "dp/tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/fake_gpus.h"
#include "worker/library/testing/thrown.h"

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::GpuOfMemory;
using ::testing::HasSubstr;

class CudaOfProcessTest : public library::FakeGpus {
 protected:
  Tensor on_one_ = zeros({4}, DataType::kFloat32, "cuda:1");
};

TEST_F(CudaOfProcessTest, MemoryIsThatOfItsGpuOrTheHosts) {
  const float on_host = 0;
  EXPECT_EQ(GpuOfMemory(on_one_.elements().data).value(), 1);
  EXPECT_EQ(GpuOfMemory(&on_host).value(), std::nullopt);
  EXPECT_EQ(GpuOfMemory(nullptr).value(), std::nullopt);
}

// An earlier kernel has failed, and every call of CUDA's says so. Memory whose place is unknown is
// not read as if it were the host's.
TEST_F(CudaOfProcessTest, AnErrorOfCudaIsNoMemoryOfTheHost) {
  const absl::Status failed = absl::InternalError("CUDA: an illegal memory access");
  gpus_.FailDeviceOf(failed);
  EXPECT_EQ(GpuOfMemory(on_one_.elements().data).status(), failed);
  const MutableElements gradient = on_one_.elements();
  const auto clipping =
      ErrorOf([&] { clip_grad_norm(std::span<const MutableElements>(&gradient, 1), 1); });
  EXPECT_THAT(clipping.what(), HasSubstr("clip_grad_norm: CUDA: an illegal memory access"));
}

}  // namespace
}  // namespace dp::distributed
