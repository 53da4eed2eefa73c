#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/id.h"
#include "server/shell/log_chunk.h"
#include "server/shell/log_file.h"
#include "server/shell/log_roster.h"

namespace dp::server {

// About as much as one answer carries; far below gRPC's usual limit of 4 MiB a message.
inline constexpr uint64_t kLogPageBytesMax = 1 << 20;

// Bounds on the disk. What dp-coordinator takes by default is in disk_shares.h.
struct LogLimits {
  static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

  // All streams of a job together. Past it, streams are cut: further bytes are acknowledged, so
  // that no worker waits for ever, and readers find a line that says so.
  uint64_t job_bytes_max = kNone;
  // The streams of all jobs. Past it, appends are refused until logs of ended jobs have been
  // removed.
  uint64_t bytes_max = kNone;
  // Logs leave so much free on their disk, since a journal that finds none ends the coordinator.
  // Below it, too, appends are refused until logs of ended jobs have been removed.
  uint64_t disk_reserve = 0;
};

// The bytes that ranks wrote: a file a stream, under <dir>/<job>/<generation>/<rank>.<stream>; and
// beside them where each rank ran, and whether all has come (LogRoster).
// Repeating an append is harmless. Not thread-safe; owned by LogThread. No clock.
class LogStore {
 public:
  // Bytes that may still be written on the disk; none where that is not known.
  using Available = std::function<std::optional<uint64_t>()>;

  // `available` null: asks the file system of `dir`.
  explicit LogStore(std::filesystem::path dir, LogLimits limits = {}, Available available = {})
      : dir_(std::move(dir)), limits_(limits), available_(std::move(available)) {}

  // Finds out what is there already. Until then it counts as nothing. Once.
  void Measure();

  // Adds bytes, or a gap, at the end of a stream and returns its end. Bytes that it has already are
  // dropped; where bytes between its end and the chunk are missing, nothing is taken.
  // Errors: ResourceExhausted the disk, or what logs may take of it, is full; Internal.
  absl::StatusOr<LogPosition> Append(JobId job, const LogChunk& chunk);

  // Makes it durable where those ranks ran, and whose output is whole. What cannot be written is
  // known all the same, and written with the next. Errors: as Append.
  absl::Status Note(JobId job, const std::vector<RankOutput>& ranks);

  // Makes every append so far durable. After an error the store is not to be used again.
  // Errors: as Append.
  absl::Status Sync();

  // Whole lines, where a line is shorter than kWholeLineBytesMax; the bytes of a stream in order.
  // Nothing of a job without logs. Errors: Internal names the file.
  absl::StatusOr<LogPage> Read(JobId job, const LogQuery& query);

  // Removes all that is stored of a job, from memory and disk. Once that job is no longer known.
  // Errors: Internal names the folder; what is left of it then stays until the next start.
  absl::Status Drop(JobId job);

  // OK while there is room. Errors: ResourceExhausted, with the limit, the value and the remedy.
  absl::Status CheckRoom() const;
  // Whether those of all jobs take more than they may.
  bool over_limit() const { return bytes_ >= limits_.bytes_max; }
  // Whether the disk has less room than the reserve.
  bool disk_low() const;
  // Makes room: removes what is stored of these jobs, in this order, until an eighth of the limit
  // is free, and on the disk an eighth more than the reserve. Their readers find a line that says
  // so. Returns those it was removed of.
  // Errors: those of LogFile::Remove.
  absl::StatusOr<std::vector<JobId>> MakeRoom(const std::vector<JobId>& jobs);

  // The jobs of which something is stored, in no order. What is no job's folder is passed over.
  std::vector<JobId> Stored() const;

  // Grows when a page of the job may read differently; 0 while nobody has asked for its logs.
  // Counts anew in each process.
  uint64_t version(JobId job) const;

 private:
  struct JobLogs {
    std::map<LogStreamKey, LogFile> streams;
    uint64_t stored_bytes = 0;
    uint64_t version = 0;
  };

  using Rosters = std::map<Generation, LogRoster>;

  absl::StatusOr<JobLogs*> Find(JobId job);
  // Those of all generations that there are.
  absl::StatusOr<Rosters*> FindRosters(JobId job);
  absl::StatusOr<LogRoster*> FindRoster(JobId job, Generation generation);
  absl::StatusOr<LogFile*> FindStream(JobLogs& logs, JobId job, const LogStreamKey& stream);
  static void AddOutstanding(const JobLogs& logs, const Rosters& rosters, const LogQuery& query,
                             LogPage& page);
  static uint64_t StoredBytes(const JobLogs& logs, Generation generation, int rank,
                              const LogQuery& query);
  absl::Status Take(JobLogs& logs, LogFile& file, const LogChunk& chunk);
  absl::Status Remove(JobId job);
  std::optional<uint64_t> DiskAvailable() const;
  // The job takes so much on disk now.
  void Count(JobId job, uint64_t bytes);
  std::filesystem::path Folder(JobId job) const { return dir_ / job.ToString(); }

  std::filesystem::path dir_;
  LogLimits limits_;
  Available available_;
  std::map<JobId, JobLogs> jobs_;  // those that were asked for since the start
  // Likewise. What they know need not be on the disk, so they outlive an append that failed.
  std::map<JobId, Rosters> rosters_;
  std::set<std::pair<JobId, LogStreamKey>> unsynced_;
  uint64_t last_version_ = 0;
  std::map<JobId, uint64_t> bytes_of_;  // on disk
  uint64_t bytes_ = 0;                  // of all jobs
};

}  // namespace dp::server
