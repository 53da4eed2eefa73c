#include "worker/agent/launch/passed_variables.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;

TEST(PassedVariablesTest, WhatProgramsNeedIsPassedOnAndWhatMayBeASecretIsNot) {
  EXPECT_THAT(
      PassedVariables({"PATH=/bin", "AWS_SECRET_ACCESS_KEY=a", "LC_ALL=C", "HF_TOKEN=b",
                       "http_proxy=user:password@proxy", "CONDA_TOKEN=c", "NCCL_DEBUG=INFO",
                       "NCCL_DEBUG_SUBSYS=INIT,NET"},
                      {}),
      ElementsAre("PATH=/bin", "LC_ALL=C", "NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=INIT,NET"));
}

TEST(PassedVariablesTest, MorePatternsAddToTheList) {
  EXPECT_THAT(PassedVariables({"PATH=/bin", "SITE_A=1", "OTHER=2"}, {"SITE_*"}),
              ElementsAre("PATH=/bin", "SITE_A=1"));
}

}  // namespace
}  // namespace dp::worker
