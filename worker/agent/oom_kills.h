#pragma once

#include <cstdint>
#include <string>

namespace dp::worker {

// How many processes the kernel has killed for want of memory: in a cgroup of v2 and below, where
// the memory controller counts that, else on the whole host. 0 where neither can be read. `cgroup`
// is a directory, or empty; `proc` is /proc but in tests. Any thread.
int64_t CountOomKills(const std::string& cgroup, const std::string& proc);

}  // namespace dp::worker
