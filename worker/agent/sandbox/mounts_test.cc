#include "worker/agent/sandbox/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "base/check.h"
#include "base/file_descriptor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

// Runs `inside` in a child, whose mounts are no longer the test's, and returns its words.
std::string InChild(const std::function<std::string()>& inside) {
  int ends[2];
  DP_CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string said = inside();
    _exit(write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string said;
  char bytes[512];
  for (ssize_t size = 0; (size = read(ends[0], bytes, sizeof(bytes))) > 0;)
    said.append(bytes, size);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return said;
}

std::string TextOf(const std::optional<MountFault>& fault) {
  return fault ? fault->step + ": " + strerror(fault->error) : "";
}

// For each path "written" or why not.
std::string Writes(const std::vector<std::string>& paths) {
  std::string said;
  for (const std::string& path : paths) {
    const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    said += std::string(file.valid() ? "written" : strerror(errno)) + "; ";
  }
  return said;
}

// Why this process cannot have mounts of its own; empty: it can.
std::string WhyNoMounts() {
  return InChild([] { return TextOf(EnterMountNamespace(false, false)); });
}

// A process that has changed its user may not write its own map before it executes a program.
bool BecomeNobody() {
  return setgroups(0, nullptr) == 0 && setresgid(kNobody, kNobody, kNobody) == 0 &&
         setresuid(kNobody, kNobody, kNobody) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0;
}

class MountsTest : public testing::TestWithParam<MountCalls> {
 protected:
  void SetUp() override {
    if (const std::string reason = WhyNoMounts(); !reason.empty()) {
      GTEST_SKIP() << "mount namespaces cannot be made here: " << reason;
    }
    fs::permissions(top_, fs::perms::all);
    for (const char* name : {"privates", "privates/own", "privates/own/tmp", "privates/own/var-tmp",
                             "privates/other", "closed", "open"}) {
      fs::create_directories(top_ + "/" + name);
      fs::permissions(top_ + "/" + name, fs::perms::all);
    }
    std::ofstream(top_ + "/file") << "of the host";
  }

  std::optional<MountFault> Make(const RankMounts& mounts, std::vector<TmpPlace> tmps) {
    if (auto fault = EnterMountNamespace(false, !mounts.read_only_root)) return fault;
    return MakeMounts(PlanMounts(mounts, tmps), GetParam());
  }

  const TemporaryDirectory directory_;
  const std::string top_ = fs::canonical(directory_.path());
  const std::string own_ = top_ + "/privates/own";
  // Stands for /tmp, which may hold this very test.
  const std::vector<TmpPlace> tmps_{{top_ + "/open", "tmp"}};
};

INSTANTIATE_TEST_SUITE_P(Calls, MountsTest,
                         testing::Values(MountCalls::kNewest, MountCalls::kClassic),
                         [](const auto& each) {
                           return each.param == MountCalls::kNewest ? "Newest" : "Classic";
                         });

TEST_P(MountsTest, WritesToAPrivateTmpReachItsOwnDirectoryAlone) {
  const auto inside = [&] {
    const std::string fault = TextOf(Make({.private_tmp = own_}, tmps_));
    return fault + Writes({top_ + "/open/mine", top_ + "/closed/mine", own_ + "/../other/mine"});
  };
  EXPECT_EQ(InChild(inside), "written; written; No such file or directory; ");
  EXPECT_FALSE(fs::exists(top_ + "/open/mine"));
  EXPECT_TRUE(fs::exists(own_ + "/tmp/mine"));
  EXPECT_TRUE(fs::exists(top_ + "/closed/mine"));
}

TEST_P(MountsTest, AReadOnlyRootRefusesWritesBesideTheWritablePaths) {
  const auto inside = [&] {
    const std::string fault =
        TextOf(Make({.read_only_root = true, .writable = {top_ + "/open"}}, {}));
    return fault + Writes({top_ + "/open/mine", top_ + "/closed/mine", "/sys/mine", "/dev/null",
                           "/proc/self/comm"});
  };
  EXPECT_EQ(InChild(inside),
            "written; Read-only file system; Read-only file system; written; written; ");
  EXPECT_EQ(Writes({top_ + "/closed/mine"}), "written; ");  // the host's mounts are as before
}

TEST_P(MountsTest, MountsBelowAreReadOnlyTooAndThoseThatWereStaySo) {
  const auto inside = [&] {
    if (auto fault = EnterMountNamespace(false, false)) return TextOf(fault);
    for (const char* name : {"/closed/sub", "/open/sub", "/open/fixed"}) {
      const std::string path = top_ + name;
      fs::create_directories(path);
      const unsigned long flags = path.ends_with("fixed") ? MS_RDONLY | MS_NOEXEC : 0;
      if (mount("none", path.c_str(), "tmpfs", flags, nullptr) != 0) return path + strerror(errno);
    }
    const RankMounts mounts{.read_only_root = true, .writable = {top_ + "/open"}};
    const std::string fault = TextOf(MakeMounts(PlanMounts(mounts, {}), GetParam()));
    return fault + Writes({top_ + "/closed/sub/a", top_ + "/open/sub/a", top_ + "/open/fixed/a"});
  };
  EXPECT_EQ(InChild(inside), "Read-only file system; written; Read-only file system; ");
}

TEST_P(MountsTest, WhatIsShownBelowAPrivateTmpFollowsTheRoot) {
  fs::create_directories(top_ + "/open/spool");
  fs::create_directories(own_ + "/tmp/spool");
  std::ofstream(top_ + "/open/trainer") << "x";
  std::ofstream(own_ + "/tmp/trainer") << "";
  const auto inside = [&] {
    const std::string fault = TextOf(Make({.private_tmp = own_,
                                           .read_only_root = true,
                                           .writable = {top_ + "/open/spool"},
                                           .shown = {top_ + "/open/trainer"}},
                                          tmps_));
    return fault + Writes({top_ + "/open/spool/a", top_ + "/open/trainer", top_ + "/open/mine"});
  };
  EXPECT_EQ(InChild(inside), "written; Read-only file system; written; ");
  EXPECT_TRUE(fs::exists(top_ + "/open/spool/a"));
  EXPECT_TRUE(fs::exists(own_ + "/tmp/mine"));
}

TEST_P(MountsTest, AMountThatCannotBeMadeIsNamed) {
  const auto inside = [&] {
    return TextOf(Make({.read_only_root = true, .writable = {top_ + "/no-such"}}, {}));
  };
  EXPECT_EQ(InChild(inside),
            "mount " + top_ + "/no-such on " + top_ + "/no-such: No such file or directory");
}

// The directory below /tmp is another one then, or none.
TEST_P(MountsTest, TheWorkingDirectoryDoesNotLeadToTheHostsFiles) {
  std::string host = TmpPlaces().front().path + "/dp-host-XXXXXX";
  ASSERT_NE(mkdtemp(host.data()), nullptr);
  const auto inside = [&] {
    if (chdir(host.c_str()) != 0) return std::string(strerror(errno));
    std::string said = TextOf(Confine({.private_tmp = own_}, false));
    return said += fs::current_path();
  };
  EXPECT_EQ(InChild(inside), "/");
  fs::remove(host);
}

TEST_P(MountsTest, AUserGetsThemByAUserNamespaceUnlessRanksChangeTheirUser) {
  if (geteuid() == 0 && InChild([] { return std::string(BecomeNobody() ? "" : "no"); }) != "") {
    GTEST_SKIP() << "needs root to run jobs as other users";
  }
  const auto as_nobody = [&](bool keep_users) {
    return InChild([&, keep_users] {
      if (geteuid() == 0 && !BecomeNobody()) return std::string("still root");
      const uid_t user = geteuid();
      if (auto fault = EnterMountNamespace(keep_users, false)) return TextOf(fault);
      const RankMounts mounts{.read_only_root = true, .writable = {top_ + "/open"}};
      std::string said = TextOf(MakeMounts(PlanMounts(mounts, {}), GetParam()));
      said += Writes({top_ + "/open/mine", top_ + "/closed/mine"});
      return said += user == geteuid() ? "the same user" : "another user";
    });
  };
  EXPECT_EQ(as_nobody(true), "make a mount namespace: Operation not permitted");
  const std::string made = as_nobody(false);
  // The namespace could not be entered, so nothing was written.
  if (made.find("; ") == made.npos) GTEST_SKIP() << "no user namespaces for users here: " << made;
  EXPECT_EQ(made, "written; Read-only file system; the same user");
}

}  // namespace
}  // namespace dp::worker
