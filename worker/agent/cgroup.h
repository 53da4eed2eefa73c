#pragma once

#include <cstdint>
#include <string>

#include "base/file_descriptor.h"

// One cgroup, v2 or v1, by its directory. Whatever is absent or refused counts as empty: these are
// called about cgroups that may be gone. Of no library, for dp-guard. Any thread.

namespace dp::worker {

// Moves the calling process there. False with errno.
bool JoinCgroup(const std::string& dir);

// SIGKILL to every process in it and below. By cgroup.kill, which nothing outruns (v2, Linux 5.14);
// elsewhere one by one, frozen meanwhile where it can be, which may miss what is forked on the way:
// ask again until it is empty.
void KillCgroup(const std::string& dir);

// What the processes in it may have of the host's memory together, swap included. False where it
// has no memory controller.
bool LimitMemory(const std::string& dir, int64_t bytes);

// Has the cgroups below it count and limit memory themselves (v2). False where that cannot be.
bool EnableMemory(const std::string& dir);
void DisableMemory(const std::string& dir);

// Removes it and those below; false while a process is in one of them.
bool RemoveCgroup(const std::string& dir);

// Knows whether a live process is in a cgroup or below it. Not thread-safe.
class CgroupWatch {
 public:
  explicit CgroupWatch(std::string dir);

  // Reads cgroup.events where the cgroup has that file, and thereby clears POLLPRI of fd().
  bool Populated();
  // poll() reports POLLPRI here, at once and without end, until Populated() is called: the file
  // counts as changed from the moment it is opened. -1 where the kernel reports no changes: v1, and
  // a cgroup that was removed.
  int fd() const { return events_.get(); }

 private:
  const std::string dir_;
  FileDescriptor events_;
};

}  // namespace dp::worker
