#include "base/program/core_dumps.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace dp {
namespace {

// In a child, because other tests of this program may want their debugger.
TEST(CoreDumpsTest, AProcessWithSecretsIsNotDumpable) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool before = prctl(PR_GET_DUMPABLE) != 0;
    ForbidCoreDumps();
    _exit(before && prctl(PR_GET_DUMPABLE) == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace dp
