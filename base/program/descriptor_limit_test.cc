#include "base/program/descriptor_limit.h"

#include <sys/resource.h>

#include "gtest/gtest.h"

namespace dp {
namespace {

class DescriptorLimitTest : public testing::Test {
 protected:
  DescriptorLimitTest() { getrlimit(RLIMIT_NOFILE, &before_); }
  ~DescriptorLimitTest() override { setrlimit(RLIMIT_NOFILE, &before_); }

  // Keeps the hard limit: only root could raise it again.
  void SetSoft(rlim_t soft) {
    const rlimit limit{soft, before_.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }

  rlimit before_{};
};

TEST_F(DescriptorLimitTest, AProgramGetsTheLimitThatIsWanted) {
  SetSoft(100);
  EXPECT_EQ(DescriptorLimitFor(200), 200u);
}

TEST_F(DescriptorLimitTest, AProgramGetsNoMoreThanTheHardLimit) {
  SetSoft(100);
  EXPECT_EQ(DescriptorLimitFor(before_.rlim_max), before_.rlim_max);
  if (before_.rlim_max < RLIM_INFINITY) {
    EXPECT_EQ(DescriptorLimitFor(before_.rlim_max + 1), before_.rlim_max);
  }
}

TEST_F(DescriptorLimitTest, AProgramGetsNoLessThanThisProcessHas) {
  SetSoft(300);
  EXPECT_EQ(DescriptorLimitFor(200), 300u);
}

TEST_F(DescriptorLimitTest, RaisingTakesTheHardLimit) {
  SetSoft(100);
  EXPECT_EQ(RaiseDescriptorLimit(), before_.rlim_max);
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, before_.rlim_max);
}

}  // namespace
}  // namespace dp
