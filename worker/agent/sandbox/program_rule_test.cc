#include "worker/agent/sandbox/program_rule.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::HasSubstr;

TEST(ProgramRuleTest, AWildcardStandsForCharactersWithinOneName) {
  EXPECT_TRUE(AllowsProgram("/usr/bin/python3*", "/usr/bin/python3.11"));
  EXPECT_TRUE(AllowsProgram("/opt/*/bin/train", "/opt/a/bin/train"));
  EXPECT_FALSE(AllowsProgram("/opt/*/train", "/opt/a/bin/train"));
  EXPECT_FALSE(AllowsProgram("/usr/bin/*", "/usr/bin/site/python3"));
  EXPECT_FALSE(AllowsProgram("/usr/bin/python3", "/usr/bin/python3.11"));
}

TEST(ProgramRuleTest, APatternThatEndsWithASlashAllowsAllBelow) {
  EXPECT_TRUE(AllowsProgram("/opt/tools/", "/opt/tools/a/b"));
  EXPECT_TRUE(AllowsProgram("/opt/*/bin/", "/opt/x/bin/a"));
  EXPECT_TRUE(AllowsProgram("/", "/usr/bin/dash"));
  EXPECT_FALSE(AllowsProgram("/opt/tools/", "/opt/tools-2/a"));
  EXPECT_FALSE(AllowsProgram("/opt/*/bin/", "/opt/x/y/bin/a"));
  EXPECT_FALSE(AllowsProgram("/opt/tools/a/", "/opt/tools/a"));
}

TEST(ProgramRuleTest, APatternIsAnAbsolutePath) {
  EXPECT_EQ(WhyNoProgramPattern("/usr/bin/*"), "");
  EXPECT_THAT(WhyNoProgramPattern("python3"), HasSubstr("'python3' is no pattern of programs"));
  EXPECT_THAT(WhyNoProgramPattern(""), HasSubstr("begins with /"));
}

class FindProgramTest : public testing::Test {
 protected:
  FindProgramTest() { setenv("PATH", (dir("a") + ":" + dir("b")).c_str(), 1); }
  ~FindProgramTest() override { setenv("PATH", before_.c_str(), 1); }

  std::string dir(const std::string& name) const { return directory_.path() + "/" + name; }
  std::string Make(const std::string& name, mode_t mode = 0755) const {
    std::filesystem::create_directories(std::filesystem::path(dir(name)).parent_path());
    std::ofstream(dir(name)) << "#!/bin/sh\n";
    chmod(dir(name).c_str(), mode);
    return std::filesystem::canonical(dir(name));
  }

  const std::string before_ = getenv("PATH");
  const TemporaryDirectory directory_;
};

TEST_F(FindProgramTest, TheFirstThatCanBeExecutedInThePathIsFound) {
  Make("a/tool", 0644);
  const std::string tool = Make("b/tool");
  EXPECT_EQ(FindProgram("tool"), tool);
  EXPECT_EQ(FindProgram(dir("b/tool")), tool);
}

TEST_F(FindProgramTest, ALinkIsFollowedToTheProgram) {
  const std::string tool = Make("b/tool-2");
  std::filesystem::create_directories(dir("a"));
  std::filesystem::create_symlink(tool, dir("a/tool"));
  EXPECT_EQ(FindProgram("tool"), tool);
  EXPECT_TRUE(IsAllowedProgram({"/no/such", dir("a/tool")}, tool));
  EXPECT_FALSE(IsAllowedProgram({dir("a/*")}, tool));
}

TEST_F(FindProgramTest, WhatCannotBeExecutedIsNotFound) {
  std::filesystem::create_directories(dir("a/tool"));
  EXPECT_EQ(FindProgram("tool"), "");
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(FindProgram("no-such"), "");
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(FindProgram(""), "");
}

}  // namespace
}  // namespace dp::worker
