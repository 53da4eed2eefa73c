#include "worker/engine/collectives/shm/usable_cores.h"

#include "gtest/gtest.h"

namespace dp::engine {
namespace {

TEST(UsableCoresTest, AQuotaPaysForCoresRoundedUp) {
  EXPECT_EQ(CoresOfQuota("200000 100000\n"), 2);
  EXPECT_EQ(CoresOfQuota("150000 100000\n"), 2);
  EXPECT_EQ(CoresOfQuota("1000 100000\n"), 1);
}

TEST(UsableCoresTest, WhatIsNoQuotaIsNoLimit) {
  for (const char* text : {"max 100000\n", "", "200000", "x y", "-1 100000", "5 0", "1 2 3"})
    EXPECT_EQ(CoresOfQuota(text), 0) << text;
}

TEST(UsableCoresTest, ThisProcessHasACore) { EXPECT_GE(UsableCores(), 1); }

}  // namespace
}  // namespace dp::engine
