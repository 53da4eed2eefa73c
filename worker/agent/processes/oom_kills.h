#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dp::worker {

// How many processes of a cgroup the kernel has killed because memory ran out. The cgroup's memory
// controller counts them (v2, with the cgroups below; or v1). Nothing if there is no count. Any
// thread.
std::optional<int64_t> OomKillsIn(const std::string& cgroup);

// The same count of the cgroup, or of the whole host if the cgroup has none; 0 if neither can be
// read. `cgroup` is a directory, or empty; `proc` is /proc except in tests. Any thread.
int64_t CountOomKills(const std::string& cgroup, const std::string& proc);

}  // namespace dp::worker
