#pragma once

#include <cstdint>
#include <string>

#include "base/file_descriptor.h"

// Operations on one cgroup, v2 or v1, by its directory. The cgroup may be gone: whatever is absent
// or refused counts as empty. Uses no library, because dp-guard links it. Any thread.

namespace dp::worker {

// Moves the calling process into the cgroup. On failure returns false and sets errno.
bool JoinCgroup(const std::string& dir);

// Sends SIGKILL to every process in the cgroup and below. Uses cgroup.kill, which no fork outruns
// (v2, Linux 5.14). Without it, kills one by one, if possible while the cgroup is frozen. This may
// miss processes that are forked meanwhile: repeat until the cgroup is empty.
void KillCgroup(const std::string& dir);

// Limits the host memory, swap included, of all processes in the cgroup together. False if the
// cgroup has no memory controller.
bool LimitMemory(const std::string& dir, int64_t bytes);

// Makes the cgroups directly below count and limit memory (v2). False if that fails.
bool EnableMemory(const std::string& dir);
void DisableMemory(const std::string& dir);

// Removes the cgroup and those below. False while a process is in one of them.
bool RemoveCgroup(const std::string& dir);

// Whether a live process is in a cgroup or below it. Not thread-safe.
class CgroupWatch {
 public:
  explicit CgroupWatch(std::string dir);

  // Reads cgroup.events if the cgroup has that file, which clears POLLPRI of fd().
  bool Populated();
  // poll() reports POLLPRI on this descriptor until Populated() is called: the file counts as
  // changed from its opening on. -1 if the kernel reports no changes: v1, and a removed cgroup.
  int fd() const { return events_.get(); }

 private:
  const std::string dir_;
  FileDescriptor events_;
};

}  // namespace dp::worker
