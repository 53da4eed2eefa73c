#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/rank.h"

// How a rank's process exited, in a file beside its spool (log_spool.h). The guard writes the file
// for the next daemon (docs/worker.md, Exits that nobody reported). The next daemon reports the
// exit if this one dies before the coordinator knows it. Uses no library, because dp-guard links
// it.

namespace dp::worker {

struct ExitRecord {
  Exit exit;
  bool stopped = false;       // SIGTERM was sent before the exit
  bool oom = false;           // killed by the kernel: out of memory
  int64_t at_unix_nanos = 0;  // orders the exits of one host

  bool operator==(const ExitRecord&) const = default;
};

// The extension of the file beside a record that names the rank's job and daemon.
inline constexpr char kOwnerSuffix[] = ".job";

// Replaces `path` (ReplaceFile). To survive a crash of the host, also syncs the owner's file and
// the directories above, which may be as new. A failure leaves no file: only this daemon then knows
// the exit.
void WriteExitRecord(const std::string& path, const ExitRecord& record);
// Nothing if the file is absent, or is no record.
std::optional<ExitRecord> ReadExitRecord(const std::string& path);
// Also removes what an interrupted write has left.
void RemoveExitRecord(const std::string& path);

}  // namespace dp::worker
