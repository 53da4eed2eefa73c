// Compares docs/dpctl.md with the verbs.

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/dpctl/verbs/verbs.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

TEST(ReferenceTest, EveryVerbIsExplained) {
  std::ifstream file(DP_SOURCE_DIR "/docs/dpctl.md");
  ASSERT_TRUE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  for (const auto& command : AllCommands()) {
    const std::string name = absl::StrCat("**`dpctl ", command->name());
    const bool explained = absl::StrContains(text.str(), absl::StrCat(name, " ")) ||
                           absl::StrContains(text.str(), absl::StrCat(name, "`"));
    EXPECT_TRUE(explained) << command->name();
  }
}

}  // namespace
}  // namespace dp::ctl
