#include "client/dpctl/testing/dpctl_test.h"
#include "client/dpctl/verbs/verbs.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;

class CompletionTest : public DpctlTest {};

TEST_F(CompletionTest, BashIsOfferedEveryCommandWithItsFlagsAndThoseOfAll) {
  const std::string script = Dpctl("completion bash").out;
  for (const auto& command : AllCommands())
    EXPECT_THAT(script, HasSubstr("    '" + std::string(command->name()) + "') words="));
  EXPECT_THAT(script, HasSubstr("    'wait') words='--help --timeout"));
  EXPECT_THAT(script, HasSubstr("    'store ls') words="));
}

TEST_F(CompletionTest, ZshIsToldWhatEachCommandDoes) {
  const std::string script = Dpctl("completion zsh").out;
  for (const auto& command : AllCommands())
    EXPECT_THAT(script, HasSubstr("'" + std::string(command->name()) + ":"));
  EXPECT_THAT(script, HasSubstr("'wait:Wait for a job to be over; exit with its result'"));
  EXPECT_THAT(script, HasSubstr("'store:Look into a job'\\''s store"));
}

TEST_F(CompletionTest, AnotherShellIsAUsageError) { EXPECT_EQ(Dpctl("completion fish").code, 2); }

}  // namespace
}  // namespace dp::ctl
