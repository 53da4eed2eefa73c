#include "server/shell/log_store.h"

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

}  // namespace

absl::StatusOr<LogPosition> LogStore::Append(JobId job, const LogChunk& chunk) {
  DP_ASSIGN_OR_RETURN(JobLogs * logs, Find(job));
  DP_ASSIGN_OR_RETURN(LogFile * file, FindStream(*logs, job, chunk.stream));
  const uint64_t end = file->end();
  const bool gap = chunk.offset > end;
  const uint64_t known = gap ? 0 : end - chunk.offset;
  if (!gap && known < chunk.data.size()) {
    const absl::Status taken = Take(*logs, *file, absl::string_view(chunk.data).substr(known));
    if (!taken.ok()) {
      jobs_.erase(job);  // what the file has now is found out from the disk
      return taken;
    }
  }
  // A repetition too: what it repeats may wait for its sync still, or its readers for their wake.
  unsynced_.emplace(job, chunk.stream);
  logs->version = ++last_version_;
  return LogPosition{chunk.stream, file->end()};
}

absl::Status LogStore::Take(JobLogs& logs, LogFile& file, absl::string_view data) {
  if (!file.cut()) {
    const uint64_t room = job_bytes_max_ - std::min(job_bytes_max_, logs.stored_bytes);
    const absl::string_view kept = data.substr(0, room);
    DP_RETURN_IF_ERROR(file.Append(kept));
    logs.stored_bytes += kept.size();
    data.remove_prefix(kept.size());
  }
  return data.empty() ? absl::OkStatus() : file.Skip(data.size());
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
    logs.stored_bytes += file->stored_end();
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
  if (error) {
    return absl::InternalError(
        absl::StrCat("log folder ", path.parent_path().string(), ": ", error.message(),
                     "; the coordinator must be able to write everywhere below --data-dir"));
  }
  DP_ASSIGN_OR_RETURN(LogFile file, LogFile::Open(path));
  return &logs.streams.emplace(stream, std::move(file)).first->second;
}

}  // namespace dp::server
