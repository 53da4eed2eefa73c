#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/id.h"
#include "server/shell/log_chunk.h"
#include "server/shell/log_file.h"

namespace dp::server {

// What a job's streams may take on disk together. Past it, streams are cut: further bytes are
// acknowledged, so that no worker waits for ever, and readers find a line that says so.
inline constexpr uint64_t kJobLogBytesMax = uint64_t{1} << 30;
// About as much as one answer carries; far below gRPC's usual limit of 4 MiB a message.
inline constexpr uint64_t kLogPageBytesMax = 1 << 20;

// The bytes that ranks wrote: a file a stream, under <dir>/<job>/<generation>/<rank>.<stream>.
// Repeating an append is harmless. Not thread-safe; owned by LogThread. No clock.
class LogStore {
 public:
  explicit LogStore(std::filesystem::path dir, uint64_t job_bytes_max = kJobLogBytesMax)
      : dir_(std::move(dir)), job_bytes_max_(job_bytes_max) {}

  // Adds bytes at the end of a stream and returns its end. Bytes that it has already are dropped;
  // where bytes between its end and the chunk are missing, nothing is taken.
  // Errors: ResourceExhausted the disk is full; Internal.
  absl::StatusOr<LogPosition> Append(JobId job, const LogChunk& chunk);

  // Makes every append so far durable. After an error the store is not to be used again.
  // Errors: as Append.
  absl::Status Sync();

  // Whole lines, where a line is shorter than kWholeLineBytesMax; the bytes of a stream in order.
  // Nothing of a job without logs. Errors: Internal names the file.
  absl::StatusOr<LogPage> Read(JobId job, const LogQuery& query);

  // Removes all that is stored of a job, from memory and disk. Once that job is no longer known.
  // Errors: Internal names the folder; what is left of it then stays until the next start.
  absl::Status Drop(JobId job);

  // The jobs of which something is stored, in no order. What is no job's folder is passed over.
  std::vector<JobId> Stored() const;

  // Grows when there may be more to read of a job. Counts anew in each process.
  uint64_t version(JobId job) const;

 private:
  struct JobLogs {
    std::map<LogStreamKey, LogFile> streams;
    uint64_t stored_bytes = 0;
    uint64_t version = 0;
  };

  absl::StatusOr<JobLogs*> Find(JobId job);
  absl::StatusOr<LogFile*> FindStream(JobLogs& logs, JobId job, const LogStreamKey& stream);
  absl::Status Take(JobLogs& logs, LogFile& file, absl::string_view data);
  std::filesystem::path Folder(JobId job) const { return dir_ / job.ToString(); }

  const std::filesystem::path dir_;
  const uint64_t job_bytes_max_;
  std::map<JobId, JobLogs> jobs_;  // those that were asked for since the start
  std::set<std::pair<JobId, LogStreamKey>> unsynced_;
  uint64_t last_version_ = 0;
};

}  // namespace dp::server
