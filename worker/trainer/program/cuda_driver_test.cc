#include "worker/trainer/program/cuda_driver.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::trainer {
namespace {

using ::testing::HasSubstr;

class CudaDriverTest : public ::testing::Test {
 protected:
  ~CudaDriverTest() override { unsetenv("FAKE_CUDA_DEVICES"); }

  static void Devices(const char* count) { setenv("FAKE_CUDA_DEVICES", count, 1); }
  static absl::StatusOr<CudaDriver> Load() { return CudaDriver::Load(DP_FAKE_CUDA_DRIVER); }
};

TEST_F(CudaDriverTest, KernelsAreLoadedAtTheStartUnlessTheUserSaysOtherwise) {
  unsetenv("CUDA_MODULE_LOADING");
  LoadKernelsAtStart();
  EXPECT_STREQ(getenv("CUDA_MODULE_LOADING"), "EAGER");
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  LoadKernelsAtStart();
  EXPECT_STREQ(getenv("CUDA_MODULE_LOADING"), "LAZY");
  unsetenv("CUDA_MODULE_LOADING");
}

TEST_F(CudaDriverTest, ADriverTellsItsVersionAndTheFirstOfItsCards) {
  Devices("2");
  const auto driver = Load();
  ASSERT_TRUE(driver.ok()) << driver.status();
  EXPECT_EQ(*driver->Version(), "CUDA 13.1");
  const auto card = driver->FirstCard();
  ASSERT_TRUE(card.ok()) << card.status();
  EXPECT_EQ(card->model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(card->memory_bytes >> 20, 81559);
  EXPECT_EQ(*driver->FirstDevice(),
            "NVIDIA H100 80GB HBM3, 81559 MiB, compute capability 9.0, one of 2");
}

TEST_F(CudaDriverTest, ADriverWithoutACardAndOneThatDoesNotStartSaySo) {
  Devices("0");
  EXPECT_EQ(Load()->FirstCard().status(), absl::NotFoundError("the driver shows none"));
  Devices("");
  EXPECT_EQ(Load().status(), absl::UnavailableError("cuInit gives error 999"));
}

TEST_F(CudaDriverTest, ALibraryThatIsNotThereOrIsAnotherOneIsNamed) {
  EXPECT_THAT(std::string(CudaDriver::Load("libnone.so.7").status().message()),
              HasSubstr("libnone.so.7"));
  EXPECT_EQ(CudaDriver::Load("libz.so.1").status(), absl::NotFoundError("it has no cuInit"));
}

}  // namespace
}  // namespace dp::trainer
