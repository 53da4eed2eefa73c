#include "worker/agent/processes/cgroup_paths.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(CgroupPathsTest, OnAHostOfV2ThereIsOneHierarchy) {
  EXPECT_THAT(
      ParseCgroupPaths("0::/system.slice/dp-worker.service\n",
                       "24 1 0:6 / /dev rw - devtmpfs devtmpfs rw\n"
                       "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"),
      ElementsAre(Pair("cgroup2", "/sys/fs/cgroup/system.slice/dp-worker.service")));
}

TEST(CgroupPathsTest, OnAHybridHostEachHierarchyHasAPathOfItsOwn) {
  EXPECT_THAT(ParseCgroupPaths("9:name=systemd:/a\n4:cpu,cpuacct:/b\n0::/c\n",
                               "31 23 0:28 / /c/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                               "32 23 0:29 / /c/systemd rw - cgroup cgroup rw,name=systemd\n"
                               "33 23 0:30 / /c/unified rw - cgroup2 cgroup2 rw\n"),
              ElementsAre(Pair("cgroup2", "/c/unified/c"), Pair("cpu", "/c/cpu/b"),
                          Pair("cpuacct", "/c/cpu/b"), Pair("name=systemd", "/c/systemd/a")));
}

TEST(CgroupPathsTest, AMountMayShowAPartOfItsHierarchy) {
  const std::string mount = "31 23 0:28 /pod /cg rw - cgroup2 none rw\n";
  EXPECT_THAT(ParseCgroupPaths("0::/pod/x\n", mount), ElementsAre(Pair("cgroup2", "/cg/x")));
  EXPECT_THAT(ParseCgroupPaths("0::/pod\n", mount), ElementsAre(Pair("cgroup2", "/cg")));
  EXPECT_THAT(ParseCgroupPaths("0::/podium\n", mount), IsEmpty());
}

TEST(CgroupPathsTest, WhatIsOutsideOfTheCgroupNamespaceIsNotSeen) {
  EXPECT_THAT(ParseCgroupPaths("0::/../other\n", "31 23 0:28 / /cg rw - cgroup2 none rw\n"),
              IsEmpty());
  EXPECT_THAT(ParseCgroupPaths("0::/x\n", "31 23 0:28 /.. /cg rw - cgroup2 none rw\n"), IsEmpty());
}

TEST(CgroupPathsTest, AMountPointMayHaveSpacesAndAPathColons) {
  EXPECT_THAT(ParseCgroupPaths("0::/cri:x\n", "31 23 0:28 / /my\\040cg rw - cgroup2 none rw\n"),
              ElementsAre(Pair("cgroup2", "/my cg/cri:x")));
}

}  // namespace
}  // namespace dp::worker
