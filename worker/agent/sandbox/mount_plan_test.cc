#include "worker/agent/sandbox/mount_plan.h"

#include <sys/mount.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<TmpPlace> kTmps{{"/tmp", "tmp"}, {"/var/tmp", "var-tmp"}};
constexpr char kPrivate[] = "/state/tmp/7.1.x";

// "source on target", with "!" where ranks may write.
std::vector<std::string> Binds(const RankMounts& mounts) {
  std::vector<std::string> binds;
  for (const auto& [source, target, writable] : PlanMounts(mounts, kTmps).binds) {
    binds.push_back((source == target ? "" : source + " on ") + target + (writable ? "!" : ""));
  }
  return binds;
}

TEST(MountPlanTest, WithoutAnOptionNothingIsMounted) {
  EXPECT_THAT(Binds({.writable = {"/scratch"}, .shown = {"/tmp/trainer"}}), IsEmpty());
  EXPECT_FALSE(PlanMounts({}, kTmps).read_only);
}

TEST(MountPlanTest, APrivateTmpIsMountedOnEachOfTheHosts) {
  EXPECT_THAT(Binds({.private_tmp = kPrivate}),
              ElementsAre("/state/tmp/7.1.x on /state/tmp!", "/state/tmp/7.1.x/tmp on /tmp!",
                          "/state/tmp/7.1.x/var-tmp on /var/tmp!"));
}

TEST(MountPlanTest, TheDirectoriesOfOthersAreHiddenUnlessTheyAreAnyway) {
  EXPECT_THAT(Binds({.private_tmp = "/tmp/state/tmp/7.1.x"}),
              ElementsAre("/tmp/state/tmp/7.1.x/tmp on /tmp!",
                          "/tmp/state/tmp/7.1.x/var-tmp on /var/tmp!"));
}

TEST(MountPlanTest, AReadOnlyRootLeavesTmpAndTheKernelsTreesAndWritablePathsAsTheyAre) {
  EXPECT_THAT(Binds({.read_only_root = true, .writable = {"/scratch"}, .shown = {"/opt/trainer"}}),
              ElementsAre("/dev!", "/proc!", "/scratch!", "/tmp!", "/var/tmp!"));
  EXPECT_TRUE(PlanMounts({.read_only_root = true}, kTmps).read_only);
}

TEST(MountPlanTest, WhatDpNeedsStaysVisibleBelowAPrivateTmp) {
  const RankMounts mounts{.private_tmp = kPrivate,
                          .writable = {"/tmp/state/spool/7/1", "/data"},
                          .shown = {"/tmp/bin/dp-trainer", "/opt/dp-trainer"}};
  EXPECT_THAT(Binds(mounts),
              ElementsAre("/state/tmp/7.1.x on /state/tmp!", "/state/tmp/7.1.x/tmp on /tmp!",
                          "/tmp/bin/dp-trainer", "/tmp/state/spool/7/1!",
                          "/state/tmp/7.1.x/var-tmp on /var/tmp!"));
  EXPECT_THAT(
      MountPointsOf(PlanMounts(mounts, kTmps)),
      ElementsAre(MountPoint{"/state/tmp/7.1.x/tmp/bin/dp-trainer", "/tmp/bin/dp-trainer"},
                  MountPoint{"/state/tmp/7.1.x/tmp/state/spool/7/1", "/tmp/state/spool/7/1"}));
}

TEST(MountPlanTest, APrivateTmpIsMountedWithinAWritablePath) {
  EXPECT_THAT(Binds({.private_tmp = kPrivate, .read_only_root = true, .writable = {"/var"}}),
              ElementsAre("/dev!", "/proc!", "/state/tmp/7.1.x on /state/tmp!",
                          "/state/tmp/7.1.x/tmp on /tmp!", "/var!",
                          "/state/tmp/7.1.x/var-tmp on /var/tmp!"));
}

TEST(MountPlanTest, APathThatIsWritableAnywayIsNotMountedAgain) {
  const std::vector<std::string> paths{"/a/b", "/a", "/a", "/dev/shm/x", "/tmp"};
  EXPECT_THAT(
      Binds({.private_tmp = kPrivate, .read_only_root = true, .writable = paths}),
      ElementsAre("/a!", "/dev!", "/proc!", "/state/tmp/7.1.x on /state/tmp!",
                  "/state/tmp/7.1.x/tmp on /tmp!", "/state/tmp/7.1.x/var-tmp on /var/tmp!"));
}

TEST(MountPlanTest, ANameThatBeginsLikeAnotherIsNotBelowIt) {
  EXPECT_THAT(Binds({.private_tmp = kPrivate, .writable = {"/tmp-2/spool", "/tmp/spool"}}),
              ElementsAre("/state/tmp/7.1.x on /state/tmp!", "/state/tmp/7.1.x/tmp on /tmp!",
                          "/tmp/spool!", "/state/tmp/7.1.x/var-tmp on /var/tmp!"));
}

TEST(MountPlanTest, TheLowestBindDecidesWhetherAPathStaysWritable) {
  const MountPlan plan = PlanMounts({.private_tmp = kPrivate,
                                     .read_only_root = true,
                                     .writable = {"/a"},
                                     .shown = {"/tmp/trainer"}},
                                    kTmps);
  for (const char* path : {"/a", "/a/b", "/tmp/x", "/dev/shm", "/proc"}) {
    EXPECT_TRUE(StaysWritable(plan, path)) << path;
  }
  for (const char* path : {"/", "/ab", "/sys", "/tmp/trainer"}) {
    EXPECT_FALSE(StaysWritable(plan, path)) << path;
  }
  EXPECT_TRUE(StaysWritable(PlanMounts({.private_tmp = kPrivate}, kTmps), "/"));
}

TEST(MountPlanTest, MountsAreReadAsTheKernelListsThem) {
  const auto mounts = ParseMountInfo(
      "22 27 0:20 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw\n"
      "\n"
      "nonsense\n"
      "30 27 0:26 / /mnt/two\\040words ro,noatime,nodiratime - tmpfs tmpfs rw\n");
  ASSERT_EQ(mounts.size(), 2u);
  EXPECT_EQ(mounts[0].path, "/sys");
  EXPECT_EQ(mounts[0].flags, MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RELATIME);
  EXPECT_EQ(mounts[1].path, "/mnt/two words");
  EXPECT_EQ(mounts[1].flags, MS_NOATIME | MS_NODIRATIME);
}

}  // namespace
}  // namespace dp::worker
