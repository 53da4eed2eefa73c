#include "server/shell/log_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "server/shell/log_page.h"

namespace dp::server {
namespace {

constexpr std::pair<LogStreamKey::Kind, const char*> kExtensions[] = {
    {LogStreamKey::Kind::kStdout, ".stdout"},
    {LogStreamKey::Kind::kStderr, ".stderr"},
    {LogStreamKey::Kind::kMetrics, ".metrics"},
};

std::filesystem::path FileName(const LogStreamKey& stream) {
  std::string extension;
  for (const auto& [kind, name] : kExtensions) {
    if (kind == stream.kind) extension = name;
  }
  return std::filesystem::path(stream.generation.ToString()) / absl::StrCat(stream.rank, extension);
}

// The stream that a file holds; none for a file of another kind.
std::optional<LogStreamKey> ParseFileName(const std::filesystem::path& path) {
  LogStreamKey stream;
  uint64_t generation = 0;
  if (!absl::SimpleAtoi(path.parent_path().filename().string(), &generation) ||
      !absl::SimpleAtoi(path.stem().string(), &stream.rank)) {
    return std::nullopt;
  }
  stream.generation = Generation(generation);
  for (const auto& [kind, name] : kExtensions) {
    if (path.extension() != name) continue;
    stream.kind = kind;
    return stream;
  }
  return std::nullopt;
}

// On disk, without the names; what cannot be looked at counts as nothing.
uint64_t BytesBelow(const std::filesystem::path& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator at(folder, error), last; !error && at != last;
       at.increment(error)) {
    struct stat info {};
    const bool file = stat(at->path().c_str(), &info) == 0 && S_ISREG(info.st_mode);
    // Holes take nothing, and the last block is not full.
    if (file) bytes += std::min<uint64_t>(info.st_size, uint64_t{512} * info.st_blocks);
  }
  return bytes;
}

}  // namespace

void LogStore::Measure() {
  for (const JobId job : Stored()) Count(job, BytesBelow(Folder(job)));
}

absl::StatusOr<LogPosition> LogStore::Append(JobId job, const LogChunk& chunk) {
  DP_ASSIGN_OR_RETURN(JobLogs * logs, Find(job));
  DP_ASSIGN_OR_RETURN(LogFile * file, FindStream(*logs, job, chunk.stream));
  const uint64_t end = file->end();
  const uint64_t chunk_end = chunk.offset + chunk.data.size() + chunk.cut_bytes;
  if (chunk.offset <= end && end < chunk_end) {
    absl::Status taken = CheckRoom();
    if (taken.ok()) taken = Take(*logs, *file, chunk);
    if (!taken.ok()) {
      jobs_.erase(job);  // what the file has now is found out from the disk
      return taken;
    }
    Count(job, logs->stored_bytes);
  }
  // A repetition too: what it repeats may wait for its sync still, or its readers for their wake.
  unsynced_.emplace(job, chunk.stream);
  logs->version = ++last_version_;
  return LogPosition{chunk.stream, file->end()};
}

// Takes what the file lacks of the chunk.
absl::Status LogStore::Take(JobLogs& logs, LogFile& file, const LogChunk& chunk) {
  const uint64_t before = file.disk_bytes();
  const uint64_t known = file.end() - chunk.offset;
  if (chunk.cut_bytes > 0) {
    DP_RETURN_IF_ERROR(file.AppendGap(chunk.cut_bytes - known, chunk.times));
    logs.stored_bytes += file.disk_bytes() - before;
    return absl::OkStatus();
  }
  absl::string_view data = absl::string_view(chunk.data).substr(known);
  if (!file.cut()) {
    const uint64_t room =
        limits_.job_bytes_max - std::min(limits_.job_bytes_max, logs.stored_bytes);
    const absl::string_view kept = data.substr(0, room);
    DP_RETURN_IF_ERROR(file.Append(kept, chunk.times));
    logs.stored_bytes += file.disk_bytes() - before;
    data.remove_prefix(kept.size());
  }
  return data.empty() ? absl::OkStatus() : file.Skip(data.size());
}

void LogStore::Count(JobId job, uint64_t bytes) {
  uint64_t& known = bytes_of_[job];
  bytes_ = bytes_ - known + bytes;
  known = bytes;
}

absl::Status LogStore::CheckRoom() const {
  if (over_limit()) {
    return absl::ResourceExhaustedError(absl::StrCat("the logs of all jobs take ", bytes_,
                                                     " bytes and may take ", limits_.bytes_max,
                                                     "; raise dp-coordinator --logs-bytes-max"));
  }
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(dir_, error);
  if (error || space.available >= limits_.disk_reserve) return absl::OkStatus();
  // Without the value, which changes all the time: who asks again logs a reason once.
  return absl::ResourceExhaustedError(
      absl::StrCat("the disk of ", dir_.string(), " has less left than the ", limits_.disk_reserve,
                   " bytes of --log-disk-reserve; make room there, workers send again"));
}

absl::StatusOr<std::vector<JobId>> LogStore::MakeRoom(const std::vector<JobId>& jobs) {
  std::vector<JobId> removed;
  for (const JobId job : jobs) {
    if (bytes_ < limits_.bytes_max - limits_.bytes_max / 8) break;
    const auto stored = bytes_of_.find(job);
    if (stored == bytes_of_.end() || stored->second == 0) continue;
    DP_RETURN_IF_ERROR(Remove(job));
    removed.push_back(job);
  }
  return removed;
}

absl::Status LogStore::Remove(JobId job) {
  DP_ASSIGN_OR_RETURN(JobLogs * logs, Find(job));
  for (auto& [stream, file] : logs->streams) {
    const absl::Status removed = file.Remove();
    if (removed.ok()) continue;
    jobs_.erase(job);
    return removed;
  }
  logs->stored_bytes = 0;
  Count(job, 0);
  logs->version = ++last_version_;
  return absl::OkStatus();
}

absl::Status LogStore::Sync() {
  for (const auto& [job, stream] : std::exchange(unsynced_, {})) {
    DP_ASSIGN_OR_RETURN(JobLogs * logs, Find(job));
    DP_ASSIGN_OR_RETURN(LogFile * file, FindStream(*logs, job, stream));
    DP_RETURN_IF_ERROR(file->Sync());
  }
  return absl::OkStatus();
}

absl::StatusOr<LogPage> LogStore::Read(JobId job, const LogQuery& query) {
  DP_ASSIGN_OR_RETURN(JobLogs * logs, Find(job));
  DP_ASSIGN_OR_RETURN(LogPage page, ReadPage(logs->streams, query));
  page.version = logs->version;
  return page;
}

absl::Status LogStore::Drop(JobId job) {
  jobs_.erase(job);
  Count(job, 0);
  bytes_of_.erase(job);
  std::erase_if(unsynced_, [job](const auto& each) { return each.first == job; });
  std::error_code error;
  std::filesystem::remove_all(Folder(job), error);
  if (!error) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("log folder ", Folder(job).string(), ": ", error.message()));
}

std::vector<JobId> LogStore::Stored() const {
  std::vector<JobId> jobs;
  std::error_code error;
  for (std::filesystem::directory_iterator at(dir_, error), last; !error && at != last;
       at.increment(error)) {
    uint64_t job = 0;
    if (absl::SimpleAtoi(at->path().filename().string(), &job)) jobs.emplace_back(job);
  }
  return jobs;
}

uint64_t LogStore::version(JobId job) const {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? 0 : it->second.version;
}

absl::StatusOr<LogStore::JobLogs*> LogStore::Find(JobId job) {
  const auto [it, is_new] = jobs_.try_emplace(job);
  if (!is_new) return &it->second;
  JobLogs& logs = it->second;
  logs.version = ++last_version_;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator at(Folder(job), error), last;
       !error && at != last; at.increment(error)) {
    const std::optional<LogStreamKey> stream = ParseFileName(at->path());
    if (!stream) continue;
    auto file = LogFile::Open(at->path());
    if (!file.ok()) {
      jobs_.erase(it);
      return file.status();
    }
    logs.stored_bytes += file->disk_bytes();
    logs.streams.emplace(*stream, *std::move(file));
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    jobs_.erase(it);
    return absl::InternalError(
        absl::StrCat("cannot read the logs of job ", job.value(), ": ", error.message()));
  }
  return &logs;
}

absl::StatusOr<LogFile*> LogStore::FindStream(JobLogs& logs, JobId job,
                                              const LogStreamKey& stream) {
  const auto it = logs.streams.find(stream);
  if (it != logs.streams.end()) return &it->second;
  const std::filesystem::path path = Folder(job) / FileName(stream);
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error == std::errc::no_space_on_device) {
    return absl::ResourceExhaustedError(absl::StrCat("log folder ", path.parent_path().string(),
                                                     ": ", error.message(), "; make room there"));
  }
  if (error) {
    return absl::InternalError(
        absl::StrCat("log folder ", path.parent_path().string(), ": ", error.message(),
                     "; the coordinator must be able to write everywhere below --data-dir"));
  }
  DP_ASSIGN_OR_RETURN(LogFile file, LogFile::Open(path));
  return &logs.streams.emplace(stream, std::move(file)).first->second;
}

}  // namespace dp::server
