#include "base/labels.h"

#include <gtest/gtest.h>

namespace dp {
namespace {

const Labels kWorker = {{"zone", "b"}, {"nvlink", ""}};

bool Holds(absl::string_view constraint) {
  const auto parsed = ParseConstraint(constraint);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(ToString(*parsed), constraint);
  return Satisfies(kWorker, *parsed);
}

TEST(LabelsTest, EachFormOfConstraintHoldsWhereItShould) {
  EXPECT_TRUE(Holds("zone=b"));
  EXPECT_FALSE(Holds("zone=c"));
  EXPECT_FALSE(Holds("rack=b"));
  EXPECT_FALSE(Holds("zone!=b"));
  EXPECT_TRUE(Holds("zone!=c"));
  EXPECT_TRUE(Holds("rack!=b"));
  EXPECT_TRUE(Holds("nvlink"));
  EXPECT_FALSE(Holds("rack"));
  EXPECT_FALSE(Holds("!zone"));
  EXPECT_TRUE(Holds("!spot"));
}

TEST(LabelsTest, WhatIsNoConstraintIsRefused) {
  for (const char* text : {"", "=b", "!", "!=b", "zone=b=c", "a b", "zone=\xc3\xa9"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseConstraint(text).status())) << text;
  }
}

TEST(LabelsTest, ALabelHasAKeyAndAValue) {
  EXPECT_EQ(*ParseLabel("rack=r1"), (Label{"rack", "r1"}));
  EXPECT_EQ(*ParseLabel("nvlink="), (Label{"nvlink", ""}));
  for (const char* text : {"rack", "=r1", "rack=r=1", "rack=r 1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseLabel(text).status())) << text;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ParseLabel("rack=" + std::string(64, 'r')).status()));
}

}  // namespace
}  // namespace dp
