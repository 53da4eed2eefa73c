#include "worker/engine/device/cuda/testing/cuda_cublaslt_on_host.h"

#include "worker/engine/device/cuda/libraries/cuda_gemm.h"
#include "worker/engine/device/cuda/testing/cuda_plans_testing.h"

// The requests of our products to cuBLASLt that leave results as they are.

namespace dp::engine::cuda {
namespace {

using CudaGemmRequestTest = CudaPlansTest<float>;

// One run of a product that is to fill `sms` processors.
TEST_F(CudaGemmRequestTest, AProductFillsOnlyTheProcessorsThatItIsGiven) {
  const DeviceArray<float> a(std::vector<float>(64, 1)), b(std::vector<float>(64, 2)), out(64);
  const GemmOperands operands = {.a = a.data(), .b = b.data(), .out = out.data()};
  for (const int sms : {0, 116, 100}) {
    const GemmShape shape = {.m = 8, .n = 8, .k = 8, .sms = sms};
    auto plan = GemmPlan::Make(Plan(), shape, operands);
    ASSERT_TRUE(plan.ok()) << plan.status();
    Done(plan->Run(stream(), operands));
    EXPECT_EQ(on_host::SmsOfLastProduct(), sms);
    EXPECT_TRUE(cache_.Find(Describe(shape)));
  }
}

}  // namespace
}  // namespace dp::engine::cuda
