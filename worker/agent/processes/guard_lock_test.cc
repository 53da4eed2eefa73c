#include "worker/agent/processes/guard_lock.h"

#include <unistd.h>

#include <optional>

#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

class GuardLockTest : public testing::Test {
 protected:
  GuardLock Daemon() { return *GuardLock::Open(directory_.path()); }
  // The lock that a guard inherits outlives its daemon.
  static FileDescriptor GuardOf(const GuardLock& daemon) {
    return FileDescriptor(dup(daemon.fd()));
  }

  TemporaryDirectory directory_;
};

TEST_F(GuardLockTest, TheFirstDaemonFindsNoGuards) { EXPECT_TRUE(Daemon().EarlierGuardsGone()); }

TEST_F(GuardLockTest, AGuardOfAnEarlierDaemonIsSeenUntilItEnds) {
  FileDescriptor guard = GuardOf(Daemon());
  GuardLock next = Daemon();
  EXPECT_FALSE(next.EarlierGuardsGone());
  guard.Close();
  EXPECT_TRUE(next.EarlierGuardsGone());
}

TEST_F(GuardLockTest, ItsOwnGuardsDoNotCount) {
  GuardLock daemon = Daemon();
  const FileDescriptor guard = GuardOf(daemon);
  EXPECT_TRUE(daemon.EarlierGuardsGone());
}

// A rank may be slow to die while two more daemons start and die.
TEST_F(GuardLockTest, GuardsOfSeveralEarlierDaemonsAreAllSeen) {
  std::optional<GuardLock> first = Daemon();
  EXPECT_TRUE(first->EarlierGuardsGone());
  FileDescriptor guard_of_first = GuardOf(*first);
  first.reset();
  std::optional<GuardLock> second = Daemon();
  EXPECT_FALSE(second->EarlierGuardsGone());
  FileDescriptor guard_of_second = GuardOf(*second);
  second.reset();
  guard_of_first.Close();
  GuardLock third = Daemon();
  EXPECT_FALSE(third.EarlierGuardsGone());
  guard_of_second.Close();
  EXPECT_TRUE(third.EarlierGuardsGone());
}

}  // namespace
}  // namespace dp::worker
