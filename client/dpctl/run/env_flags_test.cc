#include "client/dpctl/run/env_flags.h"

#include <cstdlib>

#include "client/dpctl/testing/program_test.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;

class EnvFlagsTest : public ProgramTest {};

TEST_F(EnvFlagsTest, TheEnvironmentFromHereIsAnAllowList) {
  setenv("VIRTUAL_ENV", "/venv", 1);
  setenv("MY_CACHE", "/cache", 1);
  setenv("MY_API_KEY", "hidden", 1);
  const char* more_secrets[] = {"MY_DB_PASSWD", "MY_Passphrase", "MY_CREDENTIALS", "MY_AUTH"};
  for (const char* name : more_secrets) setenv(name, "hidden", 1);
  const v1::JobSpec plain = Submitted("--env-from-here --env PATH=/p train.py");
  const v1::JobSpec more = Submitted("--env-from-here=MY_* --env MY_API_KEY train.py");
  const v1::JobSpec prefix = Submitted("--env-from-here=MY_* train.py");
  for (const char* name : {"VIRTUAL_ENV", "MY_CACHE", "MY_API_KEY"}) unsetenv(name);
  for (const char* name : more_secrets) unsetenv(name);
  EXPECT_EQ(plain.env().at("VIRTUAL_ENV"), "/venv");
  EXPECT_EQ(plain.env().at("PATH"), "/p");
  EXPECT_FALSE(plain.env().contains("MY_CACHE"));
  EXPECT_EQ(more.env().at("MY_CACHE"), "/cache");
  EXPECT_EQ(more.env().at("MY_API_KEY"), "hidden");
  EXPECT_EQ(prefix.env().at("MY_CACHE"), "/cache");
  EXPECT_FALSE(prefix.env().contains("MY_API_KEY"));
  for (const char* name : more_secrets) EXPECT_FALSE(prefix.env().contains(name)) << name;
}

TEST_F(EnvFlagsTest, NamesThatAreNotSetHereAreTold) {
  setenv("MY_CACHE", "/cache", 1);
  Submitted("--env-from-here=MY_CACHE,MY_C*,DP_TEST_NOT_SET,DP_TEST_NO* train.py");
  unsetenv("MY_CACHE");
  EXPECT_THAT(err_.str(), ::testing::StartsWith(
                              "dpctl: --env-from-here: DP_TEST_NOT_SET names no variable that is "
                              "set here; the ranks get none\n"
                              "dpctl: --env-from-here: DP_TEST_NO* names no variable"));
  EXPECT_THAT(err_.str(), ::testing::Not(HasSubstr("MY_C")));
}

TEST_F(EnvFlagsTest, ANameThatProgramsCannotReadIsNotPassedOnByAPrefix) {
  setenv("MY_FUNC%%", "() { :; }", 1);
  const v1::JobSpec spec = Submitted("--env-from-here=MY_* train.py");
  unsetenv("MY_FUNC%%");
  EXPECT_FALSE(spec.env().contains("MY_FUNC%%"));
}

}  // namespace
}  // namespace dp::ctl
