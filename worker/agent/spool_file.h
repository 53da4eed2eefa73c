#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "worker/agent/file_glimpse.h"
#include "worker/agent/found_times.h"
#include "worker/agent/spool_budget.h"

namespace dp::worker {

// One stream of a rank as its spool file has it: what was found in it when, what the coordinator
// has of it, and what has been given up for want of room. The rank appends to the file by itself
// and is never waited for. Bytes are given up by making a hole where they were, so that offsets
// stay and the rank notices nothing; a hole at the front is also how the next life of the daemon
// learns of it.
//
// A rank can also empty its file, or write over it, by opening the file anew (`> /dev/stdout`).
// The stream then goes on behind a gap of at least one byte with what the file holds now. From
// then on an offset of the stream is an offset of the file plus a shift. A file beside it records
// the shift for the next daemon. All offsets below are the stream's.
//
// Thread-safe, for one thread at a time that gives bytes up. No lock is held over a call to the
// disk: while a hole is made, what it takes is neither read nor told of, and what was read before
// is thrown away.
class SpoolFile {
 public:
  // Makes a hole from the front to `end`; returns 0, or the number of the error.
  using MakeHole = std::function<int(const FileDescriptor& file, uint64_t end)>;
  static int PunchHole(const FileDescriptor& file, uint64_t end);

  // What to send next, from `offset` on.
  struct Piece {
    uint64_t offset = 0;
    std::string data;
    uint64_t cut_bytes = 0;  // above 0: so many bytes are missing, and there is no data
    bool emptied = false;    // the rank has emptied its file of them; else they were given up
    std::vector<FoundTime> times;

    bool empty() const { return data.empty() && cut_bytes == 0; }
  };

  // Ends the name of the file that records the shift.
  static constexpr char kShiftSuffix[] = ".shift";

  // A file that is not there counts as empty. One that cannot be opened, as for want of
  // descriptors, does not: each Look tries again. What it holds already was found when it was last
  // written to. `left_over`: of an earlier life of the daemon, which may have given up its front;
  // it has ended.
  SpoolFile(const std::string& path, bool left_over, MakeHole make_hole = PunchHole);

  // Looks how much there is; what is new was found `now`.
  void Look(absl::Time now) DP_EXCLUDES(mu_);
  // Looks for the last time: the rank writes nothing any more. A file that has ended is open only
  // while it is read, as there may be thousands of them.
  void End(absl::Time now) DP_EXCLUDES(mu_);
  // The coordinator has all before `offset`, and nothing else.
  void Acknowledge(uint64_t offset) DP_EXCLUDES(mu_);
  // At most about `bytes_max` of what the coordinator does not have: whole lines, unless nothing
  // will follow (`ended`). Of what the latest Look has found. Empty where there is none, and while
  // a hole is made there.
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
  using Descriptor = std::shared_ptr<const FileDescriptor>;
  // What opening the file has shown.
  struct Opened {
    Descriptor file;  // null where it could not be opened
    struct stat info {};
    std::string tail;
    uint64_t first_data = 0;  // of a file that is left over
    uint64_t shift = 0;       // of one
    int error = 0;
  };

  // Sees to it that it is open; null where it cannot be. The descriptor lives as long as somebody
  // uses it.
  Descriptor Open() DP_EXCLUDES(mu_);
  Opened OpenAnew() const;
  Descriptor Take(Opened opened) DP_REQUIRES(mu_);
  // Takes what it holds when it is opened for the first time.
  void Measure(const Opened& opened) DP_REQUIRES(mu_);
  // After each use.
  void CloseIfEnded() DP_REQUIRES(mu_);
  // Takes over what the file holds now; false if another thread did so meanwhile.
  bool Notice(const FileDescriptor& file, absl::Time now) DP_EXCLUDES(mu_);
  // Lets the stream go on, after a gap, with the bytes of the file from `anew` on. `emptied`: all
  // earlier bytes of the file are gone.
  void GoOnFrom(uint64_t anew, bool emptied) DP_REQUIRES(mu_);
  void RecordShift() DP_EXCLUDES(mu_);
  bool ended_and_measured() const DP_EXCLUDES(mu_);
  FileGlimpse glimpse() const DP_EXCLUDES(mu_);
  // Whether nothing that lies at `offset` or behind it has been given up, or is about to be, since
  // `begin` was the first byte.
  bool Untouched(uint64_t begin, uint64_t offset) const DP_REQUIRES(mu_);
  Piece Emptied() const DP_REQUIRES(mu_);
  Piece LinesFrom(uint64_t offset, std::string data, bool ended) const DP_REQUIRES(mu_);
  Piece CutFrom(uint64_t offset, const std::string& kept) const DP_REQUIRES(mu_);

  const std::string path_;
  const bool left_over_;
  const MakeHole make_hole_;
  mutable Mutex mu_;
  Descriptor file_ DP_GUARDED_BY(mu_);      // null: not open
  bool ended_ DP_GUARDED_BY(mu_) = false;   // nothing more will be written
  bool absent_ DP_GUARDED_BY(mu_) = false;  // there is no such file, or it is another one by now
  // What has been measured; none before it was opened for the first time.
  std::optional<ino_t> inode_ DP_GUARDED_BY(mu_);
  absl::Status trouble_ DP_GUARDED_BY(mu_);
  SpoolUse use_ DP_GUARDED_BY(mu_);
  FileGlimpse glimpse_ DP_GUARDED_BY(mu_);          // the latest
  uint64_t shift_ DP_GUARDED_BY(mu_) = 0;           // of the stream's offsets against the file's
  uint64_t recorded_shift_ DP_GUARDED_BY(mu_) = 0;  // nothing is sent while it is another one
  uint64_t anew_ DP_GUARDED_BY(mu_) = 0;      // where the stream goes on since the file was emptied
  uint64_t hole_end_ DP_GUARDED_BY(mu_) = 0;  // of the hole that is being made
  FoundTimes found_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::worker
