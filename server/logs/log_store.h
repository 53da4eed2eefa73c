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
#include "server/logs/log_chunk.h"
#include "server/logs/log_file.h"
#include "server/logs/log_roster.h"

namespace dp::server {

// About as much as one answer holds; far below gRPC's usual limit of 4 MiB per message.
inline constexpr uint64_t kLogPageBytesMax = 1 << 20;

// Bounds on the disk. dp-coordinator's defaults: server/program/disk_shares.h.
struct LogLimits {
  static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

  // All streams of a job together. Beyond this, streams are cut. Further bytes are acknowledged, so
  // that no worker waits forever, and readers find a line that says so.
  uint64_t job_bytes_max = kNone;
  // The streams of all jobs. Beyond this, appends are rejected until logs of terminal jobs have
  // been removed.
  uint64_t bytes_max = kNone;
  // Logs leave this much free on their disk, because a journal that finds no room ends the
  // coordinator. With less, appends are rejected too until logs of terminal jobs have been removed.
  uint64_t disk_reserve = 0;
};

// The bytes that ranks wrote, one file per stream: <dir>/<job>/<generation>/<rank>.<stream>. Beside
// the streams are notes on where each rank ran, and whether all of its output has arrived
// (LogRoster). Appends are idempotent. Not thread-safe; owned by LogThread. No clock.
class LogStore {
 public:
  // Bytes that may still be written on the disk; nullopt if unknown.
  using Available = std::function<std::optional<uint64_t>()>;

  // A null `available` asks the file system of `dir`.
  explicit LogStore(std::filesystem::path dir, LogLimits limits = {}, Available available = {})
      : dir_(std::move(dir)), limits_(limits), available_(std::move(available)) {}

  // Counts what is on the disk already. Until then it counts as nothing. Call once.
  void Measure();

  // Adds bytes, or a gap, at the end of a stream, and returns the stream's end. Drops bytes that
  // the stream has already. Takes nothing if bytes between the stream's end and the chunk are
  // missing.
  // Errors: ResourceExhausted the disk, or the logs' part of it, is full; Internal.
  absl::StatusOr<LogPosition> Append(JobId job, const LogChunk& chunk);

  // Makes durable where these ranks ran, and whose output is whole. Notes that cannot be written
  // are still known, and are written with the next ones. Errors: as Append.
  absl::Status Note(JobId job, const std::vector<RankOutput>& ranks);

  // Makes every append so far durable. After an error the store must not be used again.
  // Errors: as Append.
  absl::Status Sync();

  // Reads whole lines, if a line is shorter than kWholeLineBytesMax; the bytes of a stream in
  // order. A job without logs gives an empty page. Errors: Internal names the file.
  absl::StatusOr<LogPage> Read(JobId job, const LogQuery& query);

  // Removes all that is stored of a job, from memory and disk. Call once the job is no longer
  // known.
  // Errors: Internal names the folder; the rest of it stays until the next start.
  absl::Status Drop(JobId job);

  // OK while there is room. Errors: ResourceExhausted names the limit and the remedy.
  absl::Status CheckRoom() const;
  // Whether the logs of all jobs have reached their limit.
  bool over_limit() const { return bytes_ >= limits_.bytes_max; }
  // Whether the disk has less room than the reserve.
  bool disk_low() const;
  // Makes room: removes what is stored of these jobs, in this order. Stops when an eighth of the
  // limit is free, and on the disk an eighth more than the reserve. Readers of these jobs find a
  // line that says so. Returns the jobs whose logs were removed. Errors: those of LogFile::Remove.
  absl::StatusOr<std::vector<JobId>> MakeRoom(const std::vector<JobId>& jobs);

  // The jobs that have something stored, in no order. Ignores names that are no job's.
  std::vector<JobId> Stored() const;

  // Grows when a page of the job may read differently; 0 while nobody has asked for the job's logs.
  // Begins anew in each process.
  uint64_t version(JobId job) const;

 private:
  struct JobLogs {
    std::map<LogStreamKey, LogFile> streams;
    uint64_t stored_bytes = 0;
    uint64_t version = 0;
  };

  using Rosters = std::map<Generation, LogRoster>;

  absl::StatusOr<JobLogs*> Find(JobId job);
  // The rosters of the generations on the disk.
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
  // Notes that the job takes so many bytes on the disk now.
  void Count(JobId job, uint64_t bytes);
  std::filesystem::path Folder(JobId job) const { return dir_ / job.ToString(); }

  std::filesystem::path dir_;
  LogLimits limits_;
  Available available_;
  std::map<JobId, JobLogs> jobs_;  // the jobs that were asked for since the start
  // The same for rosters. They may know more than the disk, so they outlive a failed append.
  std::map<JobId, Rosters> rosters_;
  std::set<std::pair<JobId, LogStreamKey>> unsynced_;
  uint64_t last_version_ = 0;
  std::map<JobId, uint64_t> bytes_of_;  // on disk
  uint64_t bytes_ = 0;                  // of all jobs
};

}  // namespace dp::server
