#include "client/dpctl/run/program_line.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RankArgvTest, PythonRunsAScriptAndItsArgumentsFollowUntouched) {
  const Launcher run{.python = "python3"};
  EXPECT_THAT(*RankArgv({"train.py", "--epochs", "3"}, run),
              ElementsAre("python3", "-u", "train.py", "--epochs", "3"));
  EXPECT_THAT(*RankArgv({"./train", "a.py"}, run), ElementsAre("./train", "a.py"));
  EXPECT_THAT(*RankArgv({"python3.11", "train.py"}, run), ElementsAre("python3.11", "train.py"));
}

TEST(RankArgvTest, TorchrunRunsEverythingWithPythonUnlessItMustNot) {
  const Launcher torchrun{.always_python = true, .python = "/venv/bin/python"};
  EXPECT_THAT(*RankArgv({"train"}, torchrun), ElementsAre("/venv/bin/python", "-u", "train"));
  EXPECT_THAT(*RankArgv({"./train.py"}, {.always_python = true, .no_python = true}),
              ElementsAre("./train.py"));
}

TEST(RankArgvTest, AModuleIsRunAsPythonRunsIt) {
  EXPECT_THAT(*RankArgv({"pkg.train", "-m"}, {.module = true, .python = "python3"}),
              ElementsAre("python3", "-u", "-m", "pkg.train", "-m"));
  EXPECT_THAT(std::string(RankArgv({"x"}, {.module = true, .no_python = true}).status().message()),
              HasSubstr("give one of them"));
}

TEST(ScriptInTest, TheScriptIsTheFirstWordThatPythonTakesForOne) {
  EXPECT_EQ(ScriptIn({"python3", "-u", "-W", "ignore", "train.py", "eval.py"}), 4u);
  EXPECT_EQ(ScriptIn({"/usr/bin/python3.11", "-m", "pkg"}), 2u);
  EXPECT_EQ(ScriptIn({"python3", "-c", "print()"}), 0u);
  EXPECT_EQ(ScriptIn({"python3"}), 0u);
  EXPECT_EQ(ScriptIn({"./train", "train.py"}), 0u);
}

TEST(LocalRankFlagTest, TheScriptsOwnSpellingCounts) {
  EXPECT_EQ(LocalRankFlag("add_argument('--local_rank')"), "--local_rank");
  EXPECT_EQ(LocalRankFlag("add_argument('--local-rank')"), "--local-rank");
  EXPECT_EQ(LocalRankFlag("'--local_rank', '--local-rank'"), "--local-rank");
  EXPECT_EQ(LocalRankFlag(""), "--local-rank");
}

TEST(NameAfterTest, AJobIsNamedAfterItsProgram) {
  EXPECT_EQ(NameAfter({"python3", "-u", "dir/Train_Net.py", "--epochs", "3"}), "train-net");
  EXPECT_EQ(NameAfter({"/usr/bin/python3.11", "-m", "pkg"}), "pkg");
  EXPECT_EQ(NameAfter({"python3", "-c", "print()"}), "python3");
  EXPECT_EQ(NameAfter({"./build/train.exe"}), "train");
  EXPECT_EQ(NameAfter({"__"}), "command");
  EXPECT_EQ(NameAfter({std::string(100, 'a')}).size(), 63u);
}

}  // namespace
}  // namespace dp::ctl
