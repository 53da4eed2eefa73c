#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/limits.h"
#include "dp/v1/logs.pb.h"
#include "worker/agent/session.h"
#include "worker/agent/spool_budget.h"
#include "worker/core/rank.h"

// Where ranks write: files STATE_DIR/spool/JOB/GENERATION/RANK.{out,err,metrics}. A rank appends to
// them by itself, so a daemon that is stopped or slow never blocks it; the shipper (log_shipper.h)
// reads behind. Beside them lie RANK.job, which tells the job from others of that number and names
// the registration that the rank ran under; RANK.exit, once the rank has ended by itself and until
// the coordinator knows it; RANK.error, if the program writes it; and RANK.out.shift and the like,
// once a rank has emptied such a file (spool_file.h).

namespace dp::worker {

inline constexpr v1::LogStream kLogStreams[] = {v1::LOG_STREAM_STDOUT, v1::LOG_STREAM_STDERR,
                                                v1::LOG_STREAM_METRICS};

// Whose a spool is.
struct SpoolOwner {
  absl::Time job_submitted_at;
  Session session = {};  // incarnation 0: a daemon of an earlier release did not say

  bool operator==(const SpoolOwner&) const = default;
};

// The files of one rank. Knows names only; the calls touch the disk each time. Ranks share
// directories, so one thread makes and removes the files of all.
class LogSpool {
 public:
  LogSpool(const std::string& state_dir, const RankKey& key);

  // The spools that there are, in no order: at the start of a daemon, those that an earlier life
  // left.
  static std::vector<RankKey> Find(const std::string& state_dir);

  // Makes the files, empty, and the directories above them. Errors: Internal names the path and the
  // reason.
  absl::Status Create(const SpoolOwner& owner) const;
  // Puts whole lines behind what the rank has written to a stream, in one write. Errors: Internal.
  absl::Status Append(v1::LogStream stream, const std::string& lines) const;
  // What Create was told; none where no daemon of this release has made the spool.
  std::optional<SpoolOwner> owner() const;
  std::optional<absl::Time> job_submitted_at() const;
  // Removes the files, and the directories above them that have become empty.
  void Remove() const;

  std::string path(v1::LogStream stream) const;
  // What the paths of all streams begin with, absolute: for people of another host.
  std::string place() const;
  // Where a program may leave word of what went wrong (TORCHELASTIC_ERROR_FILE).
  std::string error_file() const;
  // Where the guard records how the rank ended (exit_record.h).
  std::string exit_file() const;
  // The last lines of standard error, and of standard output before them while there is room: at
  // most kLastLinesMax, each valid UTF-8 of at most kLastLineBytesMax bytes.
  std::vector<std::string> LastLines() const;

 private:
  std::string job_file() const;
  std::string shift_file(v1::LogStream stream) const;

  std::string generation_dir_;
  std::string stem_;
};

// The disk below `state_dir`; one without end where nobody knows.
DiskSpace DiskOf(const std::string& state_dir);

}  // namespace dp::worker
