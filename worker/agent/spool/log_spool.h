#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/limits.h"
#include "dp/v1/logs.pb.h"
#include "worker/agent/accounts/account.h"
#include "worker/agent/spool/secret_mask.h"
#include "worker/agent/spool/spool_budget.h"
#include "worker/core/rank.h"
#include "worker/core/session.h"

// The files that ranks write: STATE_DIR/spool/JOB/GENERATION/RANK.{out,err,metrics}. A rank appends
// to them by itself, so a stopped or slow daemon never blocks it. The shipper (log_shipper.h) reads
// behind it. Beside these files lie:
// - RANK.job, which distinguishes the job from others of its number, and names the registration
//   under which the rank ran;
// - RANK.exit, from the rank's own exit until the coordinator knows it;
// - RANK.error, if the program writes it;
// - RANK.secrets, if it has any: the values that are hidden in all that leaves this host;
// - RANK.credential, a directory, unless the coordinator is called in plain text;
// - RANK.out.shift and the like, once a rank has emptied the file (spool_file.h).
//
// All of this belongs to the daemon. A rank of another user gets the files that it reads or writes.
// The directories stay the daemon's, so the rank can put nothing in place of a file. Files
// are made, given away and removed without following a link below STATE_DIR.

namespace dp::worker {

inline constexpr v1::LogStream kLogStreams[] = {v1::LOG_STREAM_STDOUT, v1::LOG_STREAM_STDERR,
                                                v1::LOG_STREAM_METRICS};

// The owner of a spool.
struct SpoolOwner {
  absl::Time job_submitted_at;
  Session session = {};  // incarnation 0: an earlier release made the spool

  bool operator==(const SpoolOwner&) const = default;
};

// The files of one rank. Holds only names; each call touches the disk. Ranks share directories, so
// one thread must make and remove the files of all ranks.
class LogSpool {
 public:
  LogSpool(const std::string& state_dir, const RankKey& key);

  // The existing spools, in no particular order. At a daemon's start they are those of earlier
  // daemons.
  static std::vector<RankKey> Find(const std::string& state_dir);

  // Makes empty files, and the directories above them. Errors: Internal names the path and the
  // reason.
  absl::Status Create(const SpoolOwner& owner) const;
  // Gives `account`, and nobody else, what a rank uses: its streams, its error file, and its
  // credential if there is one. Others can pass through the directories, but not list them. Call it
  // after Create. Errors: Internal names the path and the reason.
  absl::Status GiveTo(const Account& account) const;
  // Keeps the values of the rank's secrets for its mask, in a file that only this user can read.
  // Without values makes none. Call it after Create and before the rank starts. The next daemon may
  // have to send the output, and no longer has the assignment. Errors: Internal.
  absl::Status KeepSecrets(const std::vector<std::string>& values) const;
  // Hides the rank's secrets; hides everything if they cannot be read any more.
  SecretMask Mask() const;
  // Appends whole lines to a stream, in one write. Errors: Internal.
  absl::Status Append(v1::LogStream stream, const std::string& lines) const;
  // Create's argument; nothing if RANK.job is missing or unreadable.
  std::optional<SpoolOwner> owner() const;
  std::optional<absl::Time> job_submitted_at() const;
  // Removes the files, and the directories above them that have become empty.
  void Remove() const;

  std::string path(v1::LogStream stream) const;
  // The beginning of all streams' paths, absolute: for people on other hosts.
  std::string place() const;
  // The directory of the files of all ranks of the generation.
  const std::string& generation_dir() const { return generation_dir_; }
  // Where a program may report what went wrong (TORCHELASTIC_ERROR_FILE).
  std::string error_file() const;
  // Where the guard records how the rank exited (exit_record.h).
  std::string exit_file() const;
  // The rank's credential for the coordinator (base/security/credential.h): a directory.
  std::string credential_dir() const;
  // The last lines of standard error, and before them of standard output while there is room.
  // Secrets are hidden. At most kLastLinesMax, each valid UTF-8 of at most kLastLineBytesMax bytes.
  std::vector<std::string> LastLines() const;

 private:
  std::string job_file() const;
  std::string secrets_file() const;
  std::string shift_file(v1::LogStream stream) const;

  std::string generation_dir_;
  std::string stem_;
};

// Checks that the spool below `state_dir` takes a file of a few KiB, and removes the file.
// Errors: Internal names the file and the reason.
absl::Status CheckSpoolRoom(const std::string& state_dir);

// The disk below `state_dir`; unlimited if unknown.
DiskSpace DiskOf(const std::string& state_dir);

}  // namespace dp::worker
