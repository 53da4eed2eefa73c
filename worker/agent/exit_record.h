#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/rank.h"

// How a rank's process ended, in a file beside its spool (log_spool.h). The guard writes the file
// for the next daemon, which reports the exit if this daemon dies before the coordinator knows it
// (docs/worker.md, Exits that nobody reported). Of no library, for dp-guard.

namespace dp::worker {

struct ExitRecord {
  Exit exit;
  bool stopped = false;       // SIGTERM was sent to it before
  bool oom = false;           // the kernel killed it for want of memory
  int64_t at_unix_nanos = 0;  // orders the exits of one host

  bool operator==(const ExitRecord&) const = default;
};

// Ends the name of the file beside a record that says whose rank it was.
inline constexpr char kOwnerSuffix[] = ".job";

// Replaces `path` so that the file survives a crash of the host: a temporary file, sync, rename,
// and a sync of the owner's file and of the directories above, which may be as new. A failure
// leaves no file: the exit is then known to this daemon alone.
void WriteExitRecord(const std::string& path, const ExitRecord& record);
// Nothing where there is no such file, or another one.
std::optional<ExitRecord> ReadExitRecord(const std::string& path);
// Also what a write that did not end has left.
void RemoveExitRecord(const std::string& path);

}  // namespace dp::worker
