#pragma once

#include <cstdint>
#include <string>

namespace dp::worker {

// How many processes the kernel has killed for want of memory: in this daemon's cgroup and below,
// where the kernel counts that (v2 with the memory controller), else on the whole host. 0 where it
// cannot be read. The roots are /proc and /sys/fs/cgroup but in tests. Any thread.
int64_t CountOomKills(const std::string& proc, const std::string& cgroups);

}  // namespace dp::worker
