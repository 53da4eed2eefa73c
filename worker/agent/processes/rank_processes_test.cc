#include "worker/agent/processes/rank_processes.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

constexpr uint64_t kNoCgroup = 0;
const RankKey kRank{JobId(7), Generation(2), 0};
const RankKey kOther{JobId(8), Generation(2), 0};

// A process that stands for a guard, with one child, the rank, which holds a socket. Both end with
// the object.
class Tree {
 public:
  Tree() {
    int told[2], end[2];
    EXPECT_EQ(pipe2(told, O_CLOEXEC) + pipe2(end, O_CLOEXEC), 0);
    guard_ = fork();
    if (guard_ == 0) {
      close(end[1]);
      if (fork() == 0) HoldSocket(told[1], end[0]);
      _exit(waitpid(-1, nullptr, 0) > 0 ? 0 : 1);
    }
    close(told[1]);
    close(end[0]);
    end_ = FileDescriptor(end[1]);
    EXPECT_EQ(read(told[0], &inode_, sizeof(inode_)), ssize_t{sizeof(inode_)});
    close(told[0]);
  }
  ~Tree() {
    end_.Close();
    EXPECT_EQ(waitpid(guard_, nullptr, 0), guard_);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  pid_t guard() const { return guard_; }
  SocketId socket(uint64_t cgroup = kNoCgroup) const { return {inode_, cgroup}; }

 private:
  [[noreturn]] static void HoldSocket(int told, int end) {
    struct stat socket {};
    fstat(::socket(AF_UNIX, SOCK_STREAM, 0), &socket);
    const uint64_t inode = socket.st_ino;
    char none;
    const bool sent = write(told, &inode, sizeof(inode)) == ssize_t{sizeof(inode)};
    _exit(sent && read(end, &none, 1) == 0 ? 0 : 1);
  }

  pid_t guard_ = 0;
  FileDescriptor end_;
  uint64_t inode_ = 0;
};

class RankProcessesTest : public testing::Test {
 protected:
  bool Hold(const RankKey& rank, const SocketId& socket) const {
    return processes_.Hold(rank.job, rank.generation, socket);
  }
  uint64_t cgroup() const {
    struct stat found {};
    EXPECT_EQ(stat(directory_.path().c_str(), &found), 0);
    return found.st_ino;
  }

  RankProcesses processes_;
  TemporaryDirectory directory_;  // its inode stands for a cgroup's
};

TEST_F(RankProcessesTest, ADescendantOfTheGenerationsGuardHoldsItsSocket) {
  const Tree tree;
  processes_.BeginUnder(kRank, tree.guard());
  EXPECT_TRUE(Hold(kRank, tree.socket()));
}

TEST_F(RankProcessesTest, AnotherJobsAndAnEarlierGenerationsRanksHoldNone) {
  const Tree tree;
  processes_.BeginUnder(kOther, tree.guard());
  EXPECT_FALSE(Hold(kRank, tree.socket()));
  EXPECT_FALSE(Hold({kOther.job, Generation(3), 0}, tree.socket()));
}

TEST_F(RankProcessesTest, AProcessThatThisOneHasNotStartedHoldsNone) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const FileDescriptor one(pair[0]), other(pair[1]);
  struct stat own {};
  ASSERT_EQ(fstat(one.get(), &own), 0);
  EXPECT_FALSE(Hold(kRank, {own.st_ino, kNoCgroup}));
}

TEST_F(RankProcessesTest, AGuardThatIsNotKnownYetCountsForEveryGeneration) {
  const Tree tree;
  EXPECT_TRUE(Hold(kRank, tree.socket()));
}

TEST_F(RankProcessesTest, TheCgroupOfARankDecidesWithoutASearch) {
  constexpr uint64_t kNoSocket = 0;
  processes_.BeginIn(kRank, directory_.path());
  EXPECT_TRUE(Hold(kRank, {kNoSocket, cgroup()}));
  const Tree tree;  // a search would find it
  EXPECT_FALSE(Hold(kOther, tree.socket(cgroup())));
}

TEST_F(RankProcessesTest, AnUnknownCgroupLeadsToASearch) {
  const Tree tree;
  processes_.BeginUnder(kRank, tree.guard());
  EXPECT_TRUE(Hold(kRank, tree.socket(cgroup())));
}

TEST_F(RankProcessesTest, ARankThatIsGoneHoldsNone) {
  processes_.BeginIn(kRank, directory_.path());
  processes_.End(kRank);
  EXPECT_FALSE(Hold(kRank, {0, cgroup()}));
}

}  // namespace
}  // namespace dp::worker
