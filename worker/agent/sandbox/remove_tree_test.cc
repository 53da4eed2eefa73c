#include "worker/agent/sandbox/remove_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

namespace fs = std::filesystem;

bool Always() { return true; }

class RemoveTreeTest : public testing::Test {
 protected:
  RemoveTreeTest() { fs::create_directories(top_ / "a/b"); }

  const TemporaryDirectory directory_;
  const fs::path top_ = fs::path(directory_.path()) / "top";
};

TEST_F(RemoveTreeTest, EverythingBelowIsRemovedAndNoLinkIsFollowed) {
  const fs::path kept = fs::path(directory_.path()) / "kept";
  fs::create_directories(kept / "dir");
  fs::create_directory_symlink(kept, top_ / "a/link");
  std::ofstream(top_ / "a/b/file") << "x";
  std::ofstream(top_ / ".lifted-1") << "x";
  EXPECT_EQ(RemoveTree(top_, Always), absl::OkStatus());
  EXPECT_FALSE(fs::exists(top_));
  EXPECT_TRUE(fs::exists(kept / "dir"));
}

// Its paths are longer than the kernel takes, and no process has so many descriptors.
TEST_F(RemoveTreeTest, ADeepTreeNeedsNoMoreThanAFlatOne) {
  int at = open(top_.c_str(), O_RDONLY | O_DIRECTORY);
  for (int depth = 0; depth < 1100; ++depth) {
    ASSERT_EQ(mkdirat(at, "directory", 0755), 0);
    const int below = openat(at, "directory", O_RDONLY | O_DIRECTORY);
    close(at);
    at = below;
  }
  close(at);
  EXPECT_EQ(RemoveTree(top_, Always), absl::OkStatus());
}

TEST_F(RemoveTreeTest, ADirectoryThatItsOwnerHasClosedIsRemoved) {
  const uid_t user = geteuid() == 0 ? 65534 : geteuid();
  const pid_t child = fork();
  if (child == 0) {
    for (const fs::path& each : {top_.parent_path(), top_, top_ / "a", top_ / "a/b"}) {
      if (chown(each.c_str(), user, getegid()) != 0) _exit(2);
    }
    if (setuid(user) != 0) _exit(3);
    fs::create_directories(top_ / "closed/below/more");
    chmod((top_ / "closed/below").c_str(), 0500);
    chmod((top_ / "closed").c_str(), 0);
    _exit(RemoveTree(top_, Always).ok() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(RemoveTreeTest, ItStopsWhenItMayNotGoOn) {
  EXPECT_TRUE(absl::IsCancelled(RemoveTree(top_, [] { return false; })));
  EXPECT_TRUE(fs::exists(top_ / "a/b"));
  EXPECT_TRUE(absl::IsNotFound(RemoveTree(top_ / "no-such", Always)));
}

}  // namespace
}  // namespace dp::worker
