#include "base/program/hidden_argument.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp {
namespace {

using ::testing::ElementsAre;

class HiddenArgumentTest : public ::testing::Test {
 protected:
  // The words as the program gets them. `shown` has them as /proc shows them afterwards.
  std::vector<std::string> Take(std::vector<std::string> line) {
    std::vector<char*> argv;
    for (std::string& word : line) argv.push_back(word.data());
    const auto words = TakeArguments(static_cast<int>(argv.size()), argv.data(), "--token");
    shown.assign(argv.begin(), argv.end());
    return words;
  }

  std::vector<std::string> shown;
};

TEST_F(HiddenArgumentTest, TheValueOfTheFlagIsHiddenAndReturned) {
  EXPECT_THAT(Take({"dpctl", "login", "--token", "dpj1.x", "-o", "json"}),
              ElementsAre("dpctl", "login", "--token", "dpj1.x", "-o", "json"));
  EXPECT_THAT(shown, ElementsAre("dpctl", "login", "--token", "******", "-o", "json"));
}

TEST_F(HiddenArgumentTest, AValueBehindAnEqualsSignIsHidden) {
  EXPECT_THAT(Take({"dpctl", "login", "--token=dpj1.x"}),
              ElementsAre("dpctl", "login", "--token=dpj1.x"));
  EXPECT_THAT(shown, ElementsAre("dpctl", "login", "--token=******"));
}

TEST_F(HiddenArgumentTest, NothingElseIsHidden) {
  Take({"dpctl", "--tokens=a", "--token"});
  EXPECT_THAT(shown, ElementsAre("dpctl", "--tokens=a", "--token"));
}

}  // namespace
}  // namespace dp
