#include "base/security/safe_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::security {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Free on usual hosts, whose accounts end at 60000.
constexpr uid_t kSomebodyElse = 61002;

class SafePathTest : public testing::Test {
 protected:
  SafePathTest() {
    fs::create_directories(dir_);
    Chmod(dir_.parent_path(), 0755);
    Chmod(dir_, 0755);
    std::ofstream(file_) << "key";
    Chmod(file_, 0644);
  }

  static void Chmod(const fs::path& path, mode_t mode) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0) << path;
  }
  static void Give(const fs::path& path, uid_t uid, gid_t gid) {
    ASSERT_EQ(lchown(path.c_str(), uid, gid), 0) << path;
  }
  static std::string WhyNot(const fs::path& path) {
    const absl::Status status = CheckSafePath(path);
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
    return std::string(status.message());
  }

  const ScratchDir scratch_;
  const fs::path dir_ = scratch_.path() / "way" / "dir";
  const fs::path file_ = dir_ / "file";
};

TEST_F(SafePathTest, OwnFilesThatOthersCanOnlyReadAreSafe) {
  EXPECT_EQ(CheckSafePath(file_), absl::OkStatus());
  EXPECT_EQ(CheckSafePath(dir_), absl::OkStatus());
  EXPECT_EQ(CheckSafePath("/"), absl::OkStatus());
  EXPECT_EQ(CheckSafePath(dir_ / ".." / "." / "dir" / "file"), absl::OkStatus());
}

TEST_F(SafePathTest, AMissingPartIsNotFound) {
  EXPECT_EQ(CheckSafePath(dir_ / "none").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(CheckSafePath(file_ / "below").code(), absl::StatusCode::kNotFound);
}

TEST_F(SafePathTest, FilesThatOthersCanWriteAreNot) {
  Chmod(file_, 0666);
  EXPECT_THAT(WhyNot(file_), HasSubstr(file_.string() + " (of user "));
  EXPECT_THAT(WhyNot(file_), HasSubstr("mode 0666) can be written by other users"));
  EXPECT_THAT(WhyNot(file_), HasSubstr("'chmod go-w " + file_.string() + "'"));
}

TEST_F(SafePathTest, ADirectoryOnTheWayMayBeWrittenByOthersOnlyWithTheStickyBit) {
  Chmod(dir_.parent_path(), 0777);
  EXPECT_THAT(WhyNot(file_), HasSubstr("way (of user "));
  Chmod(dir_.parent_path(), 01777);
  EXPECT_EQ(CheckSafePath(file_), absl::OkStatus());
  for (const std::string same : {"", "/", "/.", "//./"}) {
    EXPECT_THAT(WhyNot(dir_.parent_path().string() + same), HasSubstr("mode 1777"));
  }
}

TEST_F(SafePathTest, ALinkIsFollowedAndItsWayChecked) {
  fs::create_symlink(dir_, scratch_.path() / "absolute");
  fs::create_symlink("way/dir", scratch_.path() / "relative");
  for (const char* link : {"absolute", "relative"}) {
    Chmod(dir_.parent_path(), 0755);
    EXPECT_EQ(CheckSafePath(scratch_.path() / link / "file"), absl::OkStatus());
    EXPECT_EQ(CheckSafePath(scratch_.path() / link), absl::OkStatus());
    Chmod(dir_.parent_path(), 0777);
    EXPECT_THAT(WhyNot(scratch_.path() / link / "file"), HasSubstr("way (of user "));
  }
  fs::create_symlink("loop", scratch_.path() / "loop");
  EXPECT_THAT(WhyNot(scratch_.path() / "loop"), HasSubstr("loop: "));
}

TEST_F(SafePathTest, FilesOfAnotherUserAreNotSafe) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give files away";
  fs::create_symlink(dir_, scratch_.path() / "link");
  for (const fs::path& path : {dir_.parent_path(), dir_, file_, scratch_.path() / "link"}) {
    Give(path, kSomebodyElse, kSomebodyElse);
    EXPECT_THAT(WhyNot(scratch_.path() / "link" / "file"), HasSubstr(path.string() + " (mode "));
    EXPECT_THAT(WhyNot(scratch_.path() / "link" / "file"),
                HasSubstr("belongs to another user, user 61002"));
    Give(path, 0, 0);
  }
}

TEST_F(SafePathTest, AGroupMayWriteThatIsTheUsersOwn) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give files away";
  Chmod(file_, 0664);
  EXPECT_EQ(CheckSafePath(file_), absl::OkStatus());
  Give(file_, 0, kSomebodyElse);
  EXPECT_THAT(WhyNot(file_), HasSubstr("mode 0664"));
}

TEST_F(SafePathTest, AKeyMayBeReadByItsOwnerOnly) {
  Chmod(file_, 0600);
  EXPECT_EQ(CheckPrivateFile(file_), absl::OkStatus());
  for (const mode_t mode : {0604, 0644, 0601}) {
    Chmod(file_, mode);
    const absl::Status refused = CheckPrivateFile(file_);
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << mode;
    EXPECT_THAT(refused.message(), HasSubstr("can be read by other users"));
    EXPECT_THAT(refused.message(), HasSubstr("'chmod 600 " + file_.string() + "'"));
  }
  Chmod(file_, 0602);
  EXPECT_THAT(CheckPrivateFile(file_).message(), HasSubstr("can be written by other users"));
  EXPECT_EQ(CheckPrivateFile(dir_ / "none").code(), absl::StatusCode::kNotFound);
}

TEST_F(SafePathTest, AKeyMayBeReadByTheUsersOwnGroupOnly) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give files away";
  Chmod(file_, 0640);
  EXPECT_EQ(CheckPrivateFile(file_), absl::OkStatus());
  Give(file_, 0, kSomebodyElse);
  EXPECT_THAT(CheckPrivateFile(file_).message(), HasSubstr("mode 0640"));
}

// As Kubernetes mounts secrets: of root, and readable for the group of the pod.
TEST_F(SafePathTest, AKeyOfRootMayBeReadByAGroup) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give files away";
  Chmod(scratch_.path(), 0755);
  Chmod(file_, 0440);
  Give(file_, 0, kSomebodyElse);
  ASSERT_EQ(seteuid(kSomebodyElse), 0);
  const absl::Status group = CheckPrivateFile(file_);
  ASSERT_EQ(seteuid(0), 0);
  Chmod(file_, 0444);
  ASSERT_EQ(seteuid(kSomebodyElse), 0);
  const absl::Status all = CheckPrivateFile(file_);
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_EQ(group, absl::OkStatus());
  EXPECT_THAT(all.message(), HasSubstr("mode 0444"));
}

}  // namespace
}  // namespace dp::security
