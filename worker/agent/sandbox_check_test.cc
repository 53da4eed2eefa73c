#include "worker/agent/sandbox_check.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::HasSubstr;

class SandboxCheckTest : public testing::Test {
 protected:
  // A guard that says so and exits with this code.
  std::string Guard(const std::string& says, int code) {
    const std::string path = directory_.path() + "/guard";
    std::ofstream(path) << "#!/bin/sh\necho \"$@\" > " << path << ".arguments\necho '" << says
                        << "' >&2\nexit " << code << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  std::string Arguments() {
    std::ifstream file(directory_.path() + "/guard.arguments");
    std::string line;
    std::getline(file, line);
    return line;
  }

  const TemporaryDirectory directory_;
};

TEST_F(SandboxCheckTest, WithoutMountsNothingIsTried) {
  EXPECT_EQ(CheckMounts("/no/such", {.allowed_programs = {"/"}}, nullptr, "/spool", true),
            absl::OkStatus());
}

TEST_F(SandboxCheckTest, TheGuardTriesTheMountsOfARank) {
  const Sandbox sandbox{.private_tmp = true, .read_only_root = true, .writable = {"/scratch"}};
  PrivateTmps tmps(directory_.path(), [] { return true; });
  EXPECT_EQ(CheckMounts(Guard("", 0), sandbox, &tmps, "/spool", true), absl::OkStatus());
  EXPECT_THAT(Arguments(), HasSubstr("--private-tmp=" + directory_.path() + "/tmp/0.0."));
  EXPECT_THAT(Arguments(), HasSubstr("--read-only-root --writable=/scratch --writable=/spool "
                                     "--user=65534:65534: --try-mounts"));
}

TEST_F(SandboxCheckTest, AFaultNamesTheOptionsAndTheRemedy) {
  const Sandbox sandbox{.read_only_root = true};
  const absl::Status tried = CheckMounts(Guard("make / read-only: Operation not permitted", 1),
                                         sandbox, nullptr, "/spool", true);
  EXPECT_TRUE(absl::IsFailedPrecondition(tried));
  EXPECT_EQ(tried.message(),
            "--read-only-root: ranks cannot have mounts of their own here: make / read-only: "
            "Operation not permitted; give the daemon CAP_SYS_ADMIN and the system calls for "
            "mounts, or leave the options out");
}

TEST_F(SandboxCheckTest, WritablePathsAreThereAndFreeOfLinks) {
  const std::string link = directory_.path() + "/link";
  std::filesystem::create_directory_symlink(directory_.path(), link);
  const auto real = WithRealPaths({.writable = {link}});
  ASSERT_TRUE(real.ok());
  EXPECT_EQ(real->writable, std::vector{std::filesystem::canonical(link).string()});
  EXPECT_THAT(WithRealPaths({.writable = {"/no/such"}}).status().message(),
              HasSubstr("--writable /no/such: No such file"));
  std::filesystem::create_directory_symlink("/", directory_.path() + "/root");
  EXPECT_THAT(WithRealPaths({.writable = {directory_.path() + "/root"}}).status().message(),
              HasSubstr("nothing would be read-only"));
}

}  // namespace
}  // namespace dp::worker
