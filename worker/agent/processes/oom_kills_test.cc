#include "worker/agent/processes/oom_kills.h"

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

class OomKillsTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_.path() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  int64_t Count(const std::string& cgroup = "/dp.service") {
    return CountOomKills(root_.path() + cgroup, root_.path() + "/proc");
  }

  TemporaryDirectory root_;
};

TEST_F(OomKillsTest, TheCgroupIsCountedWhereItCounts) {
  Write("/dp.service/memory.events", "low 0\noom 4\noom_kill 3\n");
  Write("/proc/vmstat", "nr_free 9\noom_kill 70\n");
  EXPECT_EQ(Count(), 3);
}

TEST_F(OomKillsTest, ACgroupOfV1CountsToo) {
  Write("/dp.service/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  EXPECT_EQ(Count(), 2);
}

TEST_F(OomKillsTest, ElseTheHostIs) {
  Write("/proc/vmstat", "nr_free 9\noom_kill 70\n");
  EXPECT_EQ(Count(), 70);
}

TEST_F(OomKillsTest, WhereNothingCountsThereAreNone) { EXPECT_EQ(Count(), 0); }

}  // namespace
}  // namespace dp::worker
