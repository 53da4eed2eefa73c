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

TEST_F(DescriptorLimitTest, TheLastDescriptorsAreReserved) {
  SetSoft(300);
  EXPECT_FALSE(IsReservedDescriptor(300 - 64 - 1));
  EXPECT_TRUE(IsReservedDescriptor(300 - 64));
}

TEST_F(DescriptorLimitTest, OfManyDescriptorsASixteenthIsReserved) {
  if (before_.rlim_max < 3'200) GTEST_SKIP() << "the hard limit on open files is below 3,200";
  SetSoft(3'200);
  EXPECT_FALSE(IsReservedDescriptor(2'999));
  EXPECT_TRUE(IsReservedDescriptor(3'000));
}

}  // namespace
}  // namespace dp
