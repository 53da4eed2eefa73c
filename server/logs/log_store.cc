#include "server/logs/log_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "server/logs/log_disk.h"
#include "server/logs/log_page.h"

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

// The stream that a file holds; nullopt for a file of another kind.
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

constexpr char kRosterFile[] = "ranks";

bool Chosen(const LogQuery& query, int rank) {
  return query.ranks.empty() ||
         std::find(query.ranks.begin(), query.ranks.end(), rank) != query.ranks.end();
}

bool Chosen(const LogQuery& query, Generation generation) {
  return query.generation.valid() ? generation == query.generation
                                  : generation >= query.since_generation;
}

// Bytes on the disk, without the names; what cannot be read counts as nothing.
uint64_t BytesBelow(const std::filesystem::path& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator at(folder, error), last; !error && at != last;
       at.increment(error)) {
    struct stat info {};
    const bool file = stat(at->path().c_str(), &info) == 0 && S_ISREG(info.st_mode);
    // Holes take no room, and the last block is not full.
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
      jobs_.erase(job);  // what the file holds now is read from the disk
      return taken;
    }
    Count(job, logs->stored_bytes);
  }
  // Also for a repetition: its bytes may still wait for a sync, or its readers for a wake-up.
  unsynced_.emplace(job, chunk.stream);
  logs->version = ++last_version_;
  return LogPosition{chunk.stream, file->end()};
}

// Takes the part of the chunk that the file lacks.
absl::Status LogStore::Take(JobLogs& logs, LogFile& file, const LogChunk& chunk) {
  const uint64_t before = file.disk_bytes();
  const uint64_t known = file.end() - chunk.offset;
  if (chunk.cut_bytes > 0) {
    const auto reason = chunk.emptied ? LogGap::Reason::kEmptied : LogGap::Reason::kWorker;
    DP_RETURN_IF_ERROR(file.AppendGap(chunk.cut_bytes - known, reason, chunk.times));
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
  if (!disk_low()) return absl::OkStatus();
  // Without the value, which changes all the time: a caller that retries logs a reason once.
  return absl::ResourceExhaustedError(
      absl::StrCat("the disk of ", dir_.string(), " has less left than the ", limits_.disk_reserve,
                   " bytes of --log-disk-reserve; make room there, workers send again"));
}

std::optional<uint64_t> LogStore::DiskAvailable() const {
  if (available_) return available_();
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(dir_, error);
  return error ? std::nullopt : std::optional<uint64_t>(space.available);
}

bool LogStore::disk_low() const {
  return DiskAvailable().value_or(limits_.disk_reserve) < limits_.disk_reserve;
}

absl::StatusOr<std::vector<JobId>> LogStore::MakeRoom(const std::vector<JobId>& jobs) {
  const uint64_t enough = limits_.disk_reserve + limits_.disk_reserve / 8;
  std::vector<JobId> removed;
  for (const JobId job : jobs) {
    const bool has_room = bytes_ < limits_.bytes_max - limits_.bytes_max / 8;
    if (has_room && DiskAvailable().value_or(enough) >= enough) break;
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

absl::Status LogStore::Note(JobId job, const std::vector<RankOutput>& ranks) {
  DP_ASSIGN_OR_RETURN(JobLogs * logs, Find(job));
  if (!ranks.empty()) logs->version = ++last_version_;
  std::set<Generation> noted;
  for (const RankOutput& rank : ranks) {
    DP_ASSIGN_OR_RETURN(LogRoster * roster, FindRoster(job, rank.generation));
    roster->Note(rank);
    noted.insert(rank.generation);
  }
  for (const Generation generation : noted) {
    DP_ASSIGN_OR_RETURN(LogRoster * roster, FindRoster(job, generation));
    DP_RETURN_IF_ERROR(roster->Write());
  }
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
  DP_ASSIGN_OR_RETURN(const Rosters* rosters, FindRosters(job));
  LogPage page{.exhausted = true};
  if (!query.without_lines) {
    DP_ASSIGN_OR_RETURN(page, ReadPage(logs->streams, query));
  }
  page.version = logs->version;
  for (LogChunk& chunk : page.chunks) {
    const auto roster = rosters->find(chunk.stream.generation);
    const RankOutput* rank =
        roster == rosters->end() ? nullptr : roster->second.Find(chunk.stream.rank);
    if (rank != nullptr) chunk.host = rank->host;
  }
  if (query.finished && page.exhausted) AddOutstanding(*logs, *rosters, query, page);
  return page;
}

void LogStore::AddOutstanding(const JobLogs& logs, const Rosters& rosters, const LogQuery& query,
                              LogPage& page) {
  for (const auto& [generation, roster] : rosters) {
    if (!Chosen(query, generation)) continue;
    for (const auto& [number, rank] : roster.ranks()) {
      if (rank.whole || rank.spool.empty() || !Chosen(query, number)) continue;
      if (++page.outstanding_ranks > kOutstandingMax) continue;
      page.outstanding.push_back({rank, StoredBytes(logs, generation, number, query)});
      page.outstanding.back().of.generation = generation;
    }
  }
}

uint64_t LogStore::StoredBytes(const JobLogs& logs, Generation generation, int rank,
                               const LogQuery& query) {
  uint64_t bytes = 0;
  for (const auto& [kind, extension] : kExtensions) {
    const auto file = logs.streams.find({generation, rank, kind});
    if (file != logs.streams.end() && SelectsKind(query, kind)) bytes += file->second.end();
  }
  return bytes;
}

absl::Status LogStore::Drop(JobId job) {
  jobs_.erase(job);
  rosters_.erase(job);
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

absl::StatusOr<LogStore::Rosters*> LogStore::FindRosters(JobId job) {
  const auto known = rosters_.find(job);
  if (known != rosters_.end()) return &known->second;
  Rosters rosters;
  std::error_code error;
  for (std::filesystem::directory_iterator at(Folder(job), error), last; !error && at != last;
       at.increment(error)) {
    uint64_t generation = 0;
    if (!absl::SimpleAtoi(at->path().filename().string(), &generation)) continue;
    DP_ASSIGN_OR_RETURN(LogRoster roster, LogRoster::Open(at->path() / kRosterFile));
    rosters.emplace(Generation(generation), std::move(roster));
  }
  return &rosters_.emplace(job, std::move(rosters)).first->second;
}

absl::StatusOr<LogRoster*> LogStore::FindRoster(JobId job, Generation generation) {
  DP_ASSIGN_OR_RETURN(Rosters * rosters, FindRosters(job));
  const auto known = rosters->find(generation);
  if (known != rosters->end()) return &known->second;
  DP_ASSIGN_OR_RETURN(LogRoster roster,
                      LogRoster::Open(Folder(job) / generation.ToString() / kRosterFile));
  return &rosters->emplace(generation, std::move(roster)).first->second;
}

absl::StatusOr<LogFile*> LogStore::FindStream(JobLogs& logs, JobId job,
                                              const LogStreamKey& stream) {
  const auto it = logs.streams.find(stream);
  if (it != logs.streams.end()) return &it->second;
  const std::filesystem::path path = Folder(job) / FileName(stream);
  DP_RETURN_IF_ERROR(MakeFolder(path.parent_path()));
  DP_ASSIGN_OR_RETURN(LogFile file, LogFile::Open(path));
  return &logs.streams.emplace(stream, std::move(file)).first->second;
}

}  // namespace dp::server
