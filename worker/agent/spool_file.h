#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "worker/agent/found_times.h"
#include "worker/agent/spool_budget.h"

namespace dp::worker {

// One stream of a rank as its spool file has it: what was found in it when, what the coordinator
// has of it, and what has been given up for want of room. The rank appends to the file by itself
// and is never waited for. Bytes are given up by making a hole where they were, so that offsets
// stay and the rank notices nothing; a hole at the front is also how the next life of the daemon
// learns of it.
//
// Thread-safe. The lock is held while the disk is read, and while a hole is made: that keeps the
// two apart, and only background threads wait for it.
class SpoolFile {
 public:
  // What to send next, from `offset` on.
  struct Piece {
    uint64_t offset = 0;
    std::string data;
    uint64_t cut_bytes = 0;  // above 0: so many bytes were given up, and there is no data
    std::vector<FoundTime> times;

    bool empty() const { return data.empty() && cut_bytes == 0; }
  };

  // A file that is not there counts as empty. One that cannot be opened, as for want of
  // descriptors, does not: each Look tries again. What it holds already was found when it was last
  // written to. `left_over`: of an earlier life of the daemon, which may have given up its front;
  // it has ended.
  SpoolFile(const std::string& path, bool left_over);

  // Looks how much there is; what is new was found `now`.
  void Look(absl::Time now) DP_EXCLUDES(mu_);
  // Looks for the last time: the rank writes nothing any more. A file that has ended is open only
  // while it is read, as there may be thousands of them.
  void End(absl::Time now) DP_EXCLUDES(mu_);
  // The coordinator has all before `offset`, and nothing else.
  void Acknowledge(uint64_t offset) DP_EXCLUDES(mu_);
  // At most about `bytes_max` of what the coordinator does not have: whole lines, unless nothing
  // will follow (`ended`). Of what the latest Look has found. Empty where there is none.
  Piece Next(size_t bytes_max, bool ended) DP_EXCLUDES(mu_);
  // Gives up all bytes before about `begin`.
  // Errors: Unimplemented the file system makes no holes; Internal, as where it cannot be opened.
  // Then all stays as it was.
  absl::Status GiveUpBefore(uint64_t begin) DP_EXCLUDES(mu_);

  const std::string& path() const { return path_; }
  SpoolUse use() const DP_EXCLUDES(mu_);
  // Nothing waits to be sent, as far as the latest Look has found. Not while nobody knows, as it
  // could not be opened.
  bool sent() const DP_EXCLUDES(mu_);
  // Why it could not be opened the last time; OK where it could.
  absl::Status trouble() const DP_EXCLUDES(mu_);

 private:
  // Sees to it that it is open; false where it cannot be.
  bool Open() DP_REQUIRES(mu_);
  // Takes what it holds when it is opened for the first time.
  void Measure(const struct stat& info) DP_REQUIRES(mu_);
  // After each use.
  void CloseIfEnded() DP_REQUIRES(mu_);
  std::string Read(uint64_t offset, uint64_t size) const DP_REQUIRES(mu_);
  Piece LinesFrom(uint64_t offset, size_t bytes_max, bool ended) const DP_REQUIRES(mu_);
  Piece CutFrom(uint64_t offset) const DP_REQUIRES(mu_);

  const std::string path_;
  const bool left_over_;
  mutable Mutex mu_;
  FileDescriptor file_ DP_GUARDED_BY(mu_);
  bool ended_ DP_GUARDED_BY(mu_) = false;   // nothing more will be written
  bool absent_ DP_GUARDED_BY(mu_) = false;  // there is no such file, or it is another one by now
  // What has been measured; none before it was opened for the first time.
  std::optional<ino_t> inode_ DP_GUARDED_BY(mu_);
  absl::Status trouble_ DP_GUARDED_BY(mu_);
  SpoolUse use_ DP_GUARDED_BY(mu_);
  FoundTimes found_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::worker
