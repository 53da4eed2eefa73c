#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "worker/agent/spool/log_times.h"
#include "worker/agent/spool/secret_mask.h"
#include "worker/agent/spool/spool_budget.h"

namespace dp::worker {

// The result of one look at a file.
struct FileGlimpse {
  // How many of the first bytes a look remembers.
  static constexpr uint64_t kHeadBytesMax = 256;

  uint64_t size = 0;
  absl::Time modified = absl::InfinitePast();
  std::string head;  // the first bytes

  bool operator==(const FileGlimpse&) const = default;
};

// Returns whether the file was emptied since the look `before`: it is shorter, or begins with other
// bytes. Misses a file that was emptied and has reached its old size again with the same first
// bytes.
bool WasEmptied(const FileGlimpse& before, uint64_t size_now, absl::string_view head_now);

// Returns when to look again at a file that was emptied `times` times, the last time at `at`. Each
// mark costs the coordinator two syncs. If a rank empties its file in a loop, looks become rarer,
// at last one a minute.
absl::Time NextGlimpse(int times, absl::Time at);

// One stream of a rank, in its spool file. Knows when bytes were found, which the coordinator has,
// and which were dropped for lack of room. The rank appends to the file by itself and never waits.
// Dropping makes a hole, so offsets stay and the rank notices nothing. A hole at the front also
// shows the next daemon what was dropped.
//
// A rank can also empty its file, by opening it anew (`> /dev/stdout`). The stream then continues,
// behind a gap of at least one byte, with the file's new content. From then on an offset of the
// stream is an offset of the file plus a shift. A file beside it records the shift for the next
// daemon. All offsets below are the stream's.
//
// Secrets are hidden in what is sent, also where a piece ends within one. The file itself has them.
//
// Thread-safe, but only one thread at a time may drop bytes. No lock is held over a call to the
// disk. While a hole is made, its bytes are neither read nor reported, and what was read before is
// discarded.
class SpoolFile {
 public:
  // Makes a hole from the front to `end`. Returns 0, or the number of the error.
  using MakeHole = std::function<int(const FileDescriptor& file, uint64_t end)>;
  static int PunchHole(const FileDescriptor& file, uint64_t end);

  // The next data or gap to send, from `offset` on.
  struct Piece {
    uint64_t offset = 0;
    std::string data;
    uint64_t cut_bytes = 0;  // above 0: so many bytes are missing, and there is no data
    bool emptied = false;    // by the rank, which emptied its file; else they were dropped
    std::vector<LogTime> times;

    bool empty() const { return data.empty() && cut_bytes == 0; }
  };

  // The offsets of a stream end here. A rank can give its file any size without writing so much,
  // and empty it again and again. Bytes beyond are not sent. No disk for logs holds as much,
  // and the sum over all ranks of a host stays far below 2^64.
  static constexpr uint64_t kStreamBytesMax = uint64_t{1} << 50;

  // The extension of the file that records the shift.
  static constexpr char kShiftSuffix[] = ".shift";

  // A file that does not exist counts as empty. A file that cannot be opened, for example for lack
  // of descriptors, does not: each Look tries again. Bytes that exist already count as found when
  // the file was last written to. `left_over`: an earlier daemon's file, whose front may have been
  // dropped; it has ended.
  SpoolFile(const std::string& path, bool left_over, MakeHole make_hole = PunchHole,
            std::shared_ptr<const SecretMask> mask = std::make_shared<SecretMask>());

  // Looks how much there is; new bytes count as found `now`.
  void Look(absl::Time now) DP_EXCLUDES(mu_);
  // Looks for the last time, because the rank writes nothing any more. A file that has ended is
  // open only while it is read: there may be thousands.
  void End(absl::Time now) DP_EXCLUDES(mu_);
  // The coordinator has all bytes before `offset`, and no others. An offset beyond the file's end
  // shows that the rank emptied the file after an earlier daemon had sent it.
  void Acknowledge(uint64_t offset) DP_EXCLUDES(mu_);
  // At most about `bytes_max` of what the latest Look found and the coordinator does not have.
  // Whole lines, unless nothing will follow (`ended`). An end that may be the beginning of a secret
  // waits for the bytes behind it, as an unfinished line does. Empty if there is nothing, and while
  // a hole is made there.
  Piece Next(size_t bytes_max, bool ended) DP_EXCLUDES(mu_);
  // Drops all bytes before about `begin`. Errors: Unimplemented the file system makes no holes;
  // Internal, for example if the file cannot be opened. On an error nothing changes.
  absl::Status GiveUpBefore(uint64_t begin) DP_EXCLUDES(mu_);

  const std::string& path() const { return path_; }
  SpoolUse use() const DP_EXCLUDES(mu_);
  // Whether nothing waits to be sent, as of the latest Look. False until the file could be opened.
  bool sent() const DP_EXCLUDES(mu_);
  // Why the latest attempt to open the file failed; OK if it succeeded.
  absl::Status trouble() const DP_EXCLUDES(mu_);

 private:
  using Descriptor = std::shared_ptr<const FileDescriptor>;
  // The result of opening the file.
  struct Opened {
    Descriptor file;  // null: it could not be opened
    struct stat info {};
    std::string head;
    uint64_t first_data = 0;  // of a left-over file
    uint64_t shift = 0;       // of a left-over file
    int error = 0;
  };

  // Opens the file if it is not open; null if that fails. The descriptor stays open as long as
  // somebody uses it.
  Descriptor Open() DP_EXCLUDES(mu_);
  Opened OpenAnew() const;
  Descriptor Take(Opened opened) DP_REQUIRES(mu_);
  // Takes over what the file holds at its first opening.
  void Measure(const Opened& opened) DP_REQUIRES(mu_);
  // Closes a file that has ended. Called after each use.
  void CloseIfEnded() DP_REQUIRES(mu_);
  // Takes over what the file holds now. False if another thread did so meanwhile.
  bool Notice(const FileDescriptor& file, absl::Time now) DP_EXCLUDES(mu_);
  // Continues the stream, which has reached `end`, behind a gap with the bytes of the emptied file.
  // These begin at `first` in the file.
  void GoOn(uint64_t end, uint64_t first) DP_REQUIRES(mu_);
  // Where the stream ends if its file has so many bytes.
  uint64_t EndOf(uint64_t file_bytes) const DP_REQUIRES(mu_);
  // Logs once that the stream has reached kStreamBytesMax.
  void TellTooLong() DP_EXCLUDES(mu_);
  // Records a new shift. The next look retries a failure.
  void RecordShift() DP_EXCLUDES(mu_);
  bool LookIsDue(absl::Time now) const DP_EXCLUDES(mu_);
  bool ended_and_measured() const DP_EXCLUDES(mu_);
  FileGlimpse glimpse() const DP_EXCLUDES(mu_);
  // Whether no byte from `offset` on has been dropped, or is about to be, since `begin` was the
  // first byte.
  bool Untouched(uint64_t begin, uint64_t offset) const DP_REQUIRES(mu_);
  Piece Emptied() const DP_REQUIRES(mu_);
  // The bytes that are read for a piece: its own, and those around it that decide what is secret.
  struct Window {
    uint64_t begin = 0;  // in the stream
    uint64_t end = 0;
    bool cut_before = false;  // the bytes before it were dropped
    bool at_end = false;      // nothing is known behind it
  };
  // The bytes from `from` on, at most `wanted`, without secrets and without an end that must wait.
  std::string WithoutSecrets(std::string read, const Window& window, uint64_t from, uint64_t wanted,
                             bool ended) const;
  Piece LinesFrom(uint64_t offset, std::string data, bool ended) const DP_REQUIRES(mu_);
  Piece CutFrom(uint64_t offset, const std::string& kept) const DP_REQUIRES(mu_);

  const std::string path_;
  const bool left_over_;
  const MakeHole make_hole_;
  const std::shared_ptr<const SecretMask> mask_;
  mutable Mutex mu_;
  Descriptor file_ DP_GUARDED_BY(mu_);      // null: not open
  bool ended_ DP_GUARDED_BY(mu_) = false;   // nothing more will be written
  bool absent_ DP_GUARDED_BY(mu_) = false;  // no such file, or a different one by now
  // The measurements; absent before the first opening.
  std::optional<ino_t> inode_ DP_GUARDED_BY(mu_);
  absl::Status trouble_ DP_GUARDED_BY(mu_);
  SpoolUse use_ DP_GUARDED_BY(mu_);
  FileGlimpse glimpse_ DP_GUARDED_BY(mu_);       // the latest
  uint64_t shift_ DP_GUARDED_BY(mu_) = 0;        // the stream's offsets minus the file's
  uint64_t anew_ DP_GUARDED_BY(mu_) = 0;         // where the stream continues after an emptying
  uint64_t tried_shift_ DP_GUARDED_BY(mu_) = 0;  // nothing is sent until it equals shift_
  bool record_due_ DP_GUARDED_BY(mu_) = false;
  bool recording_ DP_GUARDED_BY(mu_) = false;  // a thread is recording
  bool too_long_ DP_GUARDED_BY(mu_) = false;   // it was logged
  int emptied_ DP_GUARDED_BY(mu_) = 0;         // how many times
  absl::Time emptied_at_ DP_GUARDED_BY(mu_) = absl::InfinitePast();
  uint64_t hole_end_ DP_GUARDED_BY(mu_) = 0;  // of the hole that is being made; 0: none
  LogTimes found_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::worker
