#include <cstdlib>

#include "client/dpctl/command.h"
#include "client/dpctl/testing/dpctl_test.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;

class CliTest : public DpctlTest {};

TEST_F(CliTest, EveryCommandHasHelpWithAnExample) {
  for (const auto& command : AllCommands()) {
    out_.str("");
    const Result result = Dpctl(std::string(command->name()) + " --help");
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.out, HasSubstr("Example:\n  dpctl " + std::string(command->name())));
  }
}

TEST_F(CliTest, AMisspeltCommandGetsTheNearestOne) {
  const Result result = Dpctl("sumbit job.yaml");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("did you mean 'submit' instead of 'sumbit'?"));
  EXPECT_EQ(result.out, "");
}

TEST_F(CliTest, NoCommandIsAUsageError) { EXPECT_EQ(Dpctl("--no-headers").code, 2); }

TEST_F(CliTest, AnUnknownFlagIsAUsageError) {
  const Result result = Dpctl("ps --colour");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--colour"));
}

TEST_F(CliTest, AWrongDurationOrFormatIsAUsageError) {
  EXPECT_EQ(Dpctl("ps --timeout soon").code, 2);
  EXPECT_EQ(Dpctl("ps --timeout -5s").code, 2);
  EXPECT_EQ(Dpctl("ps -o xml").code, 2);
}

TEST_F(CliTest, TheAddressComesFromFlagEnvironmentOrDefault) {
  unsetenv("DPCTL_COORDINATOR");
  Dpctl("ps");
  EXPECT_EQ(address_, "127.0.0.1:7070");
  setenv("DPCTL_COORDINATOR", "env:1", 1);
  Dpctl("ps");
  EXPECT_EQ(address_, "env:1");
  Dpctl("ps --coordinator flag:2");
  EXPECT_EQ(address_, "flag:2");
  unsetenv("DPCTL_COORDINATOR");
}

}  // namespace
}  // namespace dp::ctl
