#include "worker/agent/cuda_trainer.h"

#include <sys/stat.h>

#include <fstream>

#include "absl/time/clock.h"
#include "base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class CudaTrainerTest : public testing::Test {
 protected:
  CudaTrainer Find(const std::string& script, absl::Duration patience = absl::Minutes(1)) {
    std::ofstream(path_) << "#!/bin/sh\n" << script << "\n";
    chmod(path_.c_str(), 0700);
    return FindCudaTrainer(directory_.path() + "/dp-trainer", patience);
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/dp-trainer-cuda";
};

TEST_F(CudaTrainerTest, OneWhoseSelfCheckPassesIsUsed) {
  const CudaTrainer found = Find("[ \"$*\" = --self-check ] && echo 'driver: CUDA 13.0'");
  EXPECT_EQ(found.path, path_);
  EXPECT_THAT(found.why_not, IsEmpty());
}

TEST_F(CudaTrainerTest, OneWhoseSelfCheckFailsIsNotAndWhatIsMissingIsTold) {
  const CudaTrainer found =
      Find("echo 'driver: CUDA 13.0'; echo 'nccl: missing: no file; install it'; exit 1");
  EXPECT_THAT(found.path, IsEmpty());
  EXPECT_EQ(found.why_not, path_ +
                               ": its self-check fails with exit code 1: nccl: missing: no file; "
                               "install it");
}

TEST_F(CudaTrainerTest, OneThatCannotBeStartedSaysWhatItsLoaderSays) {
  const CudaTrainer found = Find("echo 'error while loading libcudnn.so.9' >&2; exit 127");
  EXPECT_THAT(found.path, IsEmpty());
  EXPECT_THAT(found.why_not, HasSubstr("exit code 127: error while loading libcudnn.so.9"));
}

TEST_F(CudaTrainerTest, OneThatHangsIsKilled) {
  const absl::Time start = absl::Now();
  const CudaTrainer found = Find("exec sleep 1000", absl::Milliseconds(100));
  EXPECT_THAT(found.path, IsEmpty());
  EXPECT_THAT(found.why_not, HasSubstr("its self-check was killed, after 100ms at the latest"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(60));
}

TEST_F(CudaTrainerTest, WithoutOneTheReasonIsThatThereIsNone) {
  const CudaTrainer found = FindCudaTrainer(directory_.path() + "/dp-trainer", absl::Minutes(1));
  EXPECT_THAT(found.path, IsEmpty());
  EXPECT_EQ(found.why_not, path_ +
                               " does not exist: it is built where CUDA's toolkit is; install a dp "
                               "that has it");
}

TEST_F(CudaTrainerTest, AReasonIsBounded) {
  EXPECT_LE(Find("yes | head -c 100000; exit 1").why_not.size(), kLastLineBytesMax);
}

}  // namespace
}  // namespace dp::worker
