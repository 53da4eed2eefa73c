#include "worker/agent/processes/cgroup.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

// A directory with the file names of a cgroup; the files do nothing.
class CgroupTest : public testing::Test {
 protected:
  ~CgroupTest() override {
    if (child_ > 0) kill(child_, SIGKILL);
    if (child_ > 0) waitpid(child_, nullptr, 0);
  }

  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = dir_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string Read(const std::string& name) {
    std::ifstream file(dir_ + "/" + name);
    return (std::stringstream() << file.rdbuf()).str();
  }
  pid_t Child() {
    child_ = fork();
    if (child_ == 0) {
      for (;;) pause();
    }
    return child_;
  }
  int EndOfChild() {
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = 0;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

  TemporaryDirectory directory_;
  const std::string dir_ = directory_.path();
  pid_t child_ = 0;
};

TEST_F(CgroupTest, TheKernelKillsWhereItCan) {
  Write("cgroup.kill", "");
  KillCgroup(dir_);
  EXPECT_EQ(Read("cgroup.kill"), "1");
}

TEST_F(CgroupTest, ElseEachProcessOfItAndBelowIsKilledAndThawedForIt) {
  Write("freezer.state", "");
  Write("cgroup.procs", "");
  Write("below/deeper/cgroup.procs", std::to_string(Child()) + "\n");
  KillCgroup(dir_);
  EXPECT_EQ(EndOfChild(), SIGKILL);
  EXPECT_EQ(Read("freezer.state"), "THAWED");
}

TEST_F(CgroupTest, AProcessThatCannotBeNamedHereIsNotTakenForThisProcessGroup) {
  Write("cgroup.procs", "0\n" + std::to_string(Child()) + "\n");
  KillCgroup(dir_);  // kill(0, ...) would end this test
  EXPECT_EQ(EndOfChild(), SIGKILL);
}

TEST_F(CgroupTest, MemoryIsLimitedWithoutAWayOutIntoSwap) {
  Write("memory.max", "");
  Write("memory.swap.max", "");
  EXPECT_TRUE(LimitMemory(dir_, 64 << 20));
  EXPECT_EQ(Read("memory.max"), "67108864");
  EXPECT_EQ(Read("memory.swap.max"), "0");
}

TEST_F(CgroupTest, MemoryIsLimitedByV1WhereItHasTheController) {
  EXPECT_FALSE(LimitMemory(dir_, 64 << 20));
  Write("memory.limit_in_bytes", "");
  Write("memory.memsw.limit_in_bytes", "");
  EXPECT_TRUE(LimitMemory(dir_, 64 << 20));
  EXPECT_EQ(Read("memory.limit_in_bytes"), "67108864");
  EXPECT_EQ(Read("memory.memsw.limit_in_bytes"), "67108864");
}

TEST_F(CgroupTest, V2SaysWhetherItIsPopulated) {
  Write("cgroup.events", "populated 1\nfrozen 0\n");
  CgroupWatch watch(dir_);
  EXPECT_TRUE(watch.Populated());
  Write("cgroup.events", "populated 0\nfrozen 0\n");
  EXPECT_FALSE(watch.Populated());
}

TEST_F(CgroupTest, V1IsPopulatedWhereAProcessIsListedInItOrBelow) {
  Write("cgroup.procs", "");
  Write("below/cgroup.procs", "");
  CgroupWatch watch(dir_);
  EXPECT_FALSE(watch.Populated());
  Write("below/cgroup.procs", "12\n");
  EXPECT_TRUE(watch.Populated());
}

TEST_F(CgroupTest, ACgroupThatCannotBeReadAnyMoreIsEmptyAndPolledNoMore) {
  Write("cgroup.events", "populated 1\n");
  CgroupWatch watch(dir_);
  EXPECT_GE(watch.fd(), 0);
  Write("cgroup.events", "");  // as when a removed cgroup is read
  EXPECT_FALSE(watch.Populated());
  EXPECT_EQ(watch.fd(), -1);
}

TEST_F(CgroupTest, WhatIsGoneIsEmptyAndRemoved) {
  EXPECT_FALSE(CgroupWatch("/nowhere/at/all").Populated());
  EXPECT_TRUE(RemoveCgroup("/nowhere/at/all"));
}

}  // namespace
}  // namespace dp::worker
