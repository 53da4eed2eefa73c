#include "server/policy/limits.h"

#include "gtest/gtest.h"

namespace dp::core {
namespace {

TEST(LimitsTest, NoUserMayHaveAllUnfinishedJobsUnlessTheOperatorSaysSo) {
  Limits limits;
  EXPECT_TRUE(limits.CheckUnfinished("ann", 999).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(limits.CheckUnfinished("ann", 1'000)));
  limits.each_user = {.slots = 4};
  EXPECT_FALSE(limits.CheckUnfinished("ann", 1'000).ok());
  limits.each_user = {.unfinished = 5};
  limits.users["ann"] = {.unfinished = 5'000};
  EXPECT_TRUE(limits.CheckUnfinished("ann", 4'999).ok());
  EXPECT_FALSE(limits.CheckUnfinished("bob", 5).ok());
}

TEST(LimitsTest, TheErrorNamesUserNumberLimitAndRemedy) {
  Limits limits;
  limits.each_user = {.unfinished = 3};
  const char kRest[] =
      " 4 unfinished jobs, and the limit is 3; cancel some, wait until some are over, or have "
      "'unfinished' raised in the file of dp-coordinator --limits";
  EXPECT_EQ(limits.CheckUnfinished("ann", 4).message(), std::string("user ann has") + kRest);
  EXPECT_EQ(limits.CheckUnfinished("", 4).message(),
            std::string("users without a name have") + kRest);
}

}  // namespace
}  // namespace dp::core
