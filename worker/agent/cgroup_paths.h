#pragma once

#include <map>
#include <string>

namespace dp::worker {

// The directory of a process's cgroup in each hierarchy: of v2 under the name "cgroup2", of v1
// under the name of each controller ("memory", "freezer") or of the hierarchy ("name=systemd").
using CgroupPaths = std::map<std::string, std::string>;

inline constexpr char kCgroup2[] = "cgroup2";

// Where a process is, by its /proc/PID/cgroup and mountinfo. Hierarchies that are not mounted where
// this process could see its own cgroup are missing. Pure.
CgroupPaths ParseCgroupPaths(const std::string& cgroup, const std::string& mountinfo);

// Where this process is.
CgroupPaths OwnCgroupPaths();

}  // namespace dp::worker
