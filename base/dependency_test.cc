#include "base/dependency.h"

#include <gtest/gtest.h>

namespace dp {
namespace {

TEST(DependencyTest, AJobMustSucceedUnlessAnyEndWillDo) {
  EXPECT_EQ(*ParseDependency("7"), (Dependency{JobId(7), true}));
  EXPECT_EQ(*ParseDependency("ok:7"), (Dependency{JobId(7), true}));
  EXPECT_EQ(*ParseDependency("any:12"), (Dependency{JobId(12), false}));
}

TEST(DependencyTest, WhatNamesNoJobIsRefused) {
  for (const char* text : {"", "0", "ok:", "any:ok:7", "-1", "cnn", "all:7"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseDependency(text).status())) << text;
  }
}

}  // namespace
}  // namespace dp
