#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dp::worker {

// How many processes of a cgroup the kernel has killed for want of memory, as its memory controller
// counts (v2, those below too; or v1). Nothing where it does not. Any thread.
std::optional<int64_t> OomKillsIn(const std::string& cgroup);

// The same of a cgroup, where it is counted, else on the whole host. 0 where neither can be read.
// `cgroup` is a directory, or empty; `proc` is /proc but in tests. Any thread.
int64_t CountOomKills(const std::string& cgroup, const std::string& proc);

}  // namespace dp::worker
