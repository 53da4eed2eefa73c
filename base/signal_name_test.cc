#include "base/signal_name.h"

#include "gtest/gtest.h"

namespace dp {
namespace {

TEST(SignalNameTest, EverySignalOfThisSystemHasItsNames) {
  for (const char* name : {"SIGTERM", "SIGUSR1", "SIGSTKFLT", "SIGCHLD", "SIGCLD", "SIGIO",
                           "SIGPOLL", "SIGRTMIN", "SIGRTMAX"})
    EXPECT_TRUE(IsSignalName(name)) << name;
  for (const char* name : {"", "SIG", "TERM", "FOO", "SIGFOO", "SIGTERM ", "sigterm", "15"})
    EXPECT_FALSE(IsSignalName(name)) << name;
}

}  // namespace
}  // namespace dp
