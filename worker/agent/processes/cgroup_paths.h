#pragma once

#include <map>
#include <string>

namespace dp::worker {

// The directories of a process's cgroups, by hierarchy. v2 has the key "cgroup2". v1 has a key for
// each controller ("memory", "freezer"), or the hierarchy's name ("name=systemd").
using CgroupPaths = std::map<std::string, std::string>;

inline constexpr char kCgroup2[] = "cgroup2";

// A process's cgroups, from its /proc/PID/cgroup and mountinfo. Omits hierarchies that are not
// mounted where this process could see its own cgroup. Pure.
CgroupPaths ParseCgroupPaths(const std::string& cgroup, const std::string& mountinfo);

// The cgroups of this process.
CgroupPaths OwnCgroupPaths();

}  // namespace dp::worker
