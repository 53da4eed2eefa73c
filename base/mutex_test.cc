#include "base/mutex.h"

#include <thread>

#include "gtest/gtest.h"

namespace dp {
namespace {

class CondVarTest : public ::testing::Test {
 protected:
  bool Await(absl::Duration timeout) {
    MutexLock lock(mu_);
    return changed_.WaitFor(mu_, timeout, [this]() DP_REQUIRES(mu_) { return ready_; });
  }
  void BecomeReady() {
    {
      MutexLock lock(mu_);
      ready_ = true;
    }
    changed_.NotifyAll();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool ready_ DP_GUARDED_BY(mu_) = false;
};

TEST_F(CondVarTest, WhatIsReadyIsNotWaitedFor) {
  BecomeReady();
  EXPECT_TRUE(Await(absl::ZeroDuration()));
}

TEST_F(CondVarTest, AWaitEndsUnreadyAtItsTimeout) { EXPECT_FALSE(Await(absl::Milliseconds(1))); }

TEST_F(CondVarTest, AWaitWithoutEndGoesOnUntilItIsReady) {
  std::jthread other([this] { BecomeReady(); });
  EXPECT_TRUE(Await(absl::InfiniteDuration()));
}

}  // namespace
}  // namespace dp
