#include "base/variable_pattern.h"

#include "gtest/gtest.h"

namespace dp {
namespace {

TEST(VariablePatternTest, ItIsANameOrABeginning) {
  for (const char* good : {"A", "a_1", "A*", "*"}) EXPECT_TRUE(IsVariablePattern(good)) << good;
  for (const char* bad : {"", "A=1", "A*B", "*A", "A,B", "1A"}) {
    EXPECT_FALSE(IsVariablePattern(bad)) << bad;
  }
}

TEST(VariablePatternTest, ANameMeansItselfAndABeginningAllButSecrets) {
  EXPECT_TRUE(MatchesVariable("SITE", "SITE"));
  EXPECT_FALSE(MatchesVariable("SITES", "SITE"));
  EXPECT_TRUE(MatchesVariable("SITE_A", "SITE_*"));
  EXPECT_TRUE(MatchesVariable("SITE_A", "*"));
  EXPECT_FALSE(MatchesVariable("SITE_A", "CITY*"));
  EXPECT_TRUE(MatchesVariable("SITE_TOKEN", "SITE_TOKEN"));
  EXPECT_FALSE(MatchesVariable("SITE_Api_Key", "SITE_*"));
  EXPECT_FALSE(MatchesVariable("PASSWORD", "*"));
}

}  // namespace
}  // namespace dp
