#pragma once

#include <string>

#include "gtest/gtest.h"
#include "worker/engine/collectives/testing/fake_cuda.h"
#include "worker/library/gpu/cuda_of_process.h"

namespace dp::library {

// Three GPUs, in host memory. At its end a test has freed all their memory.
class FakeGpus : public ::testing::Test {
 protected:
  FakeGpus() {
    ReplaceCuda(&gpus_);
    (void)gpus_.UseDevice(0);  // an earlier test chose another
  }
  ~FakeGpus() override {
    EXPECT_EQ(gpus_.live(), 0);
    ReplaceCuda(nullptr);
  }

  engine::FakeCuda gpus_{3};
};

}  // namespace dp::library
