#include "server/parameters/parameter_store.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/limits.h"
#include "base/name.h"
#include "base/program/log.h"
#include "base/status.h"
#include "proto/convert/time.h"
#include "server/parameters/tensor_check.h"

namespace dp::server {
namespace {

constexpr char kSuffix[] = ".params";
constexpr char kDraftSuffix[] = ".new";

absl::Status Unknown(const SetKey& key, uint64_t version) {
  const std::string remedy = "; see 'dpctl weights ls'";
  if (version == 0) {
    return absl::NotFoundError(absl::StrCat(key.ToString(), " has no parameters", remedy));
  }
  return absl::NotFoundError(
      absl::StrCat(key.ToString(), " has no parameters of version ", version, remedy));
}

absl::StatusOr<SetKey> KeyOf(const std::string& folder) {
  absl::string_view rest = folder;
  uint64_t job = 0;
  if (absl::ConsumePrefix(&rest, "job-") && absl::SimpleAtoi(rest, &job) && job > 0) {
    return SetKey{.job = JobId(job)};
  }
  if (absl::ConsumePrefix(&rest, "set-") && IsName(rest)) {
    return SetKey{.name = std::string(rest)};
  }
  return absl::InvalidArgumentError("the folder has the name of no set");
}

absl::Status FolderError(const std::filesystem::path& path, const std::error_code& error) {
  const std::string message =
      absl::StrCat("parameter folder ", path.string(), ": ", error.message());
  if (error == std::errc::no_space_on_device) {
    return absl::ResourceExhaustedError(absl::StrCat(message, "; make room there"));
  }
  return absl::InternalError(
      absl::StrCat(message, "; the coordinator must be able to write everywhere below --data-dir"));
}

v1::ParameterVersion WithoutTensors(v1::ParameterVersion version) {
  version.clear_tensors();
  version.clear_metadata();
  return version;
}

void LogLeft(const std::filesystem::path& path, const absl::Status& why) {
  Log(Severity::kError, "parameters_not_read",
      {{"path", path.string()}, {"error", std::string(why.message())}});
}

}  // namespace

ParameterStore::Push::Push(ParameterStore& store, SetKey key, parameters::StoredVersion description,
                           ParameterDisk::Room room, VersionDraft draft)
    : store_(store),
      key_(std::move(key)),
      description_(std::move(description)),
      room_(std::move(room)),
      draft_(std::move(draft)) {}

absl::Status ParameterStore::Push::Append(absl::string_view data, uint32_t crc) {
  const uint64_t announced = description_.version().bytes();
  const uint64_t left = announced - draft_.bytes();
  if (data.size() == std::min<uint64_t>(left, kParameterChunkBytes) && !data.empty()) {
    DP_RETURN_IF_ERROR(draft_.AppendChunk(data, crc));
    room_.Wrote(data.size());
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("data: a chunk has ", data.size(), " bytes, where ",
                   std::min<uint64_t>(left, kParameterChunkBytes), " must come: ", left,
                   " are left, in chunks of ", kParameterChunkBytes));
}

absl::Status ParameterStore::Push::AppendArrays(absl::string_view data) {
  DP_RETURN_IF_ERROR(draft_.AppendArrays(data));
  room_.Wrote(data.size());
  return absl::OkStatus();
}

absl::StatusOr<v1::ParameterVersion> ParameterStore::Push::Finish(parameters::StoredTable* table) {
  const uint64_t announced = description_.version().bytes();
  if (draft_.bytes() != announced) {
    return absl::InvalidArgumentError(absl::StrCat("data: the stream has ended after ",
                                                   draft_.bytes(), " of ", announced, " bytes"));
  }
  v1::ParameterVersion& version = *description_.mutable_version();
  {
    MutexLock lock(store_.mu_);
    version.set_version(++store_.highest_[key_]);
  }
  *version.mutable_at() = ToProto(store_.clock_.Now());
  version.set_crc32c(draft_.crc());
  if (table != nullptr) description_.mutable_table()->Swap(table);
  Version known = {.description = WithoutTensors(version),
                   .request_id = description_.request_id(),
                   .of_table = description_.has_table()};
  const v1::ParameterVersion answer = known.description;
  DP_RETURN_IF_ERROR(draft_.Place(std::move(description_), store_.FileOf(key_, answer.version())));
  known.file_bytes = room_.Keep();
  for (const auto& then : store_.Add(key_, std::move(known))) then();
  store_.Prune(key_);
  return answer;
}

ParameterStore::ParameterStore(std::filesystem::path dir, const ParameterLimits& limits,
                               std::function<uint64_t()> available, const Clock& clock)
    : dir_(std::move(dir)),
      limits_(limits),
      clock_(clock),
      disk_(limits.bytes_max, limits.disk_reserve, std::move(available)) {}

std::filesystem::path ParameterStore::FileOf(const SetKey& key, uint64_t version) const {
  return dir_ / key.folder() / absl::StrCat(version, kSuffix);
}

absl::Status ParameterStore::Load() {
  std::error_code error;
  if (!std::filesystem::exists(dir_, error)) return absl::OkStatus();
  for (const auto& entry : std::filesystem::directory_iterator(dir_, error)) {
    if (entry.is_directory()) DP_RETURN_IF_ERROR(LoadFolder(entry.path()));
  }
  return error ? FolderError(dir_, error) : absl::OkStatus();
}

absl::Status ParameterStore::LoadFolder(const std::filesystem::path& folder) {
  const absl::StatusOr<SetKey> key = KeyOf(folder.filename().string());
  if (!key.ok()) {
    LogLeft(folder, key.status());
    return absl::OkStatus();
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() == kDraftSuffix) {
      std::filesystem::remove(path, error);
      continue;
    }
    uint64_t version = 0;
    if (path.extension() != kSuffix || !absl::SimpleAtoi(path.stem().string(), &version)) continue;
    absl::StatusOr<VersionReader> reader = VersionReader::Open(path);
    if (reader.ok()) disk_.Add(entry.file_size(error));
    MutexLock lock(mu_);
    highest_[*key] = std::max(highest_[*key], version);
    if (!reader.ok()) {
      LogLeft(path, reader.status());
      continue;
    }
    const parameters::StoredVersion& stored = reader->description();
    sets_[*key].insert_or_assign(version, Version{.description = WithoutTensors(stored.version()),
                                                  .request_id = stored.request_id(),
                                                  .file_bytes = entry.file_size(error),
                                                  .of_table = stored.has_table()});
  }
  return error ? FolderError(folder, error) : absl::OkStatus();
}

absl::StatusOr<VersionDraft> ParameterStore::NewDraft(const SetKey& key) {
  const std::filesystem::path folder = dir_ / key.folder();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return FolderError(folder, error);
  uint64_t number = 0;
  {
    MutexLock lock(mu_);
    number = ++drafts_;
  }
  return VersionDraft::Create(folder / absl::StrCat(number, kDraftSuffix));
}

absl::StatusOr<std::unique_ptr<ParameterStore::Push>> ParameterStore::Begin(
    const SetKey& key, const v1::ParameterVersion& description, const std::string& request_id,
    uint64_t array_bytes) {
  DP_ASSIGN_OR_RETURN(const uint64_t bytes, CheckTensors(description));
  DP_RETURN_IF_ERROR(CheckMetadata(description));
  if (FindPushed(key, request_id).has_value()) {
    return absl::AlreadyExistsError(absl::StrCat(key.ToString(), " has this push already"));
  }
  parameters::StoredVersion stored;
  *stored.mutable_version() = description;
  stored.mutable_version()->set_job(key.job.value());
  stored.mutable_version()->set_name(key.name);
  stored.mutable_version()->set_bytes(bytes);
  stored.mutable_version()->set_tensor_count(static_cast<uint32_t>(description.tensors_size()));
  stored.set_request_id(request_id);
  const uint64_t file_bytes = bytes + array_bytes + stored.ByteSizeLong() +
                              4 * (bytes / kParameterChunkBytes + 1) + kParameterChunkBytes / 256;
  DP_ASSIGN_OR_RETURN(ParameterDisk::Room room, disk_.Take(key.ToString(), file_bytes));
  DP_ASSIGN_OR_RETURN(VersionDraft draft, NewDraft(key));
  return std::unique_ptr<Push>(
      new Push(*this, key, std::move(stored), std::move(room), std::move(draft)));
}

std::vector<std::function<void()>> ParameterStore::Add(const SetKey& key, Version version) {
  std::vector<std::function<void()>> woken;
  MutexLock lock(mu_);
  const uint64_t number = version.description.version();
  sets_[key].insert_or_assign(number, std::move(version));
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (it->second.key != key || it->second.since >= number) {
      ++it;
      continue;
    }
    woken.push_back(std::move(it->second.then));
    it = waiting_.erase(it);
  }
  return woken;
}

void ParameterStore::Prune(const SetKey& key) {
  std::vector<uint64_t> surplus;
  {
    MutexLock lock(mu_);
    int kept = 0;
    const Set& set = sets_[key];
    for (auto it = set.rbegin(); it != set.rend(); ++it) {
      if (it->second.of_table && ++kept > limits_.table_versions) surplus.push_back(it->first);
    }
  }
  for (const uint64_t version : surplus) {
    const absl::Status removed = Remove(key, version).status();
    if (!removed.ok() && !absl::IsNotFound(removed)) LogLeft(FileOf(key, version), removed);
  }
}

const ParameterStore::Version* ParameterStore::FindLocked(const SetKey& key,
                                                          uint64_t version) const {
  const auto set = sets_.find(key);
  if (set == sets_.end() || set->second.empty()) return nullptr;
  if (version == 0) return &set->second.rbegin()->second;
  const auto found = set->second.find(version);
  return found == set->second.end() ? nullptr : &found->second;
}

absl::StatusOr<v1::ParameterVersion> ParameterStore::Find(const SetKey& key,
                                                          uint64_t version) const {
  MutexLock lock(mu_);
  const Version* const found = FindLocked(key, version);
  if (found == nullptr) return Unknown(key, version);
  return found->description;
}

absl::StatusOr<uint64_t> ParameterStore::LatestTable(const SetKey& key) const {
  MutexLock lock(mu_);
  const auto set = sets_.find(key);
  if (set == sets_.end()) return Unknown(key, 0);
  for (auto it = set->second.rbegin(); it != set->second.rend(); ++it) {
    if (it->second.of_table) return it->first;
  }
  return Unknown(key, 0);
}

std::optional<v1::ParameterVersion> ParameterStore::FindPushed(
    const SetKey& key, const std::string& request_id) const {
  MutexLock lock(mu_);
  const auto set = sets_.find(key);
  if (set == sets_.end() || request_id.empty()) return std::nullopt;
  for (const auto& [number, version] : set->second) {
    if (version.request_id == request_id) return version.description;
  }
  return std::nullopt;
}

absl::StatusOr<VersionReader> ParameterStore::Open(const SetKey& key, uint64_t version) const {
  DP_ASSIGN_OR_RETURN(const v1::ParameterVersion found, Find(key, version));
  absl::StatusOr<VersionReader> reader = VersionReader::Open(FileOf(key, found.version()));
  // Its file goes before it is forgotten.
  if (absl::IsNotFound(reader.status())) return Unknown(key, found.version());
  return reader;
}

absl::StatusOr<std::vector<v1::ParameterVersion>> ParameterStore::Versions(
    const SetKey& key) const {
  MutexLock lock(mu_);
  const auto set = sets_.find(key);
  if (set == sets_.end() || set->second.empty()) return Unknown(key, 0);
  std::vector<v1::ParameterVersion> versions;
  for (auto it = set->second.rbegin(); it != set->second.rend(); ++it) {
    versions.push_back(it->second.description);
  }
  return versions;
}

std::vector<v1::ParameterVersion> ParameterStore::Latest() const {
  MutexLock lock(mu_);
  std::vector<v1::ParameterVersion> jobs, named;
  for (const auto& [key, set] : sets_) {
    if (set.empty()) continue;
    (key.job.valid() ? jobs : named).push_back(set.rbegin()->second.description);
  }
  jobs.insert(jobs.end(), named.begin(), named.end());
  return jobs;
}

std::string ParameterStore::OwnerOf(const SetKey& key) const {
  MutexLock lock(mu_);
  const auto set = sets_.find(key);
  if (set == sets_.end() || set->second.empty()) return "";
  return set->second.begin()->second.description.owner();
}

absl::StatusOr<uint64_t> ParameterStore::Remove(const SetKey& key, uint64_t version,
                                                const std::string& request_id) {
  std::vector<uint64_t> removed;
  {
    MutexLock lock(mu_);
    if (const Removal* const done = FindRemoval(key, request_id)) return done->bytes;
    if (FindLocked(key, version) == nullptr) return Unknown(key, version);
    for (const auto& [number, known] : sets_[key]) {
      if (version == 0 || version == number) removed.push_back(number);
    }
  }
  const std::filesystem::path folder = dir_ / key.folder();
  absl::Status failed;
  std::erase_if(removed, [&](uint64_t number) {
    std::error_code error;
    std::filesystem::remove(FileOf(key, number), error);
    if (error) failed = FolderError(FileOf(key, number), error);
    return bool{error};
  });
  const absl::Status synced = SyncFolder(folder);
  if (!synced.ok() && !absl::IsNotFound(synced)) return synced;
  const uint64_t freed = Erase(key, removed, failed.ok() ? request_id : "");
  DP_RETURN_IF_ERROR(failed);
  if (version == 0) {
    std::error_code in_use;
    std::filesystem::remove(folder, in_use);  // unless a push goes on there
  }
  return freed;
}

uint64_t ParameterStore::Erase(const SetKey& key, const std::vector<uint64_t>& versions,
                               const std::string& request_id) {
  uint64_t freed = 0;
  {
    MutexLock lock(mu_);
    Set& set = sets_[key];
    for (const uint64_t version : versions) {
      const auto known = set.find(version);
      if (known == set.end()) continue;
      freed += known->second.file_bytes;
      set.erase(known);
    }
    if (set.empty()) sets_.erase(key);
    if (!request_id.empty()) removals_.push_back({key, request_id, freed});
    if (removals_.size() > kRemovalsKept) removals_.pop_front();
  }
  disk_.Free(freed);
  return freed;
}

const ParameterStore::Removal* ParameterStore::FindRemoval(const SetKey& key,
                                                           const std::string& request_id) const {
  if (request_id.empty()) return nullptr;
  for (const Removal& each : removals_) {
    if (each.request_id == request_id && each.key == key) return &each;
  }
  return nullptr;
}

absl::Status ParameterStore::SetAside(JobId job) {
  const SetKey key = {.job = job};
  std::vector<uint64_t> versions;
  {
    MutexLock lock(mu_);
    const auto set = sets_.find(key);
    if (set == sets_.end()) return Unknown(key, 0);
    for (const auto& [number, version] : set->second) versions.push_back(number);
  }
  const std::filesystem::path from = dir_ / key.folder();
  const std::filesystem::path to =
      dir_ / absl::StrCat("lost-", key.folder(), "-", absl::ToUnixMicros(clock_.Now()));
  std::error_code error;
  std::filesystem::rename(from, to, error);
  if (error) return FolderError(from, error);
  DP_RETURN_IF_ERROR(SyncFolder(dir_));
  (void)Erase(key, versions, /*request_id=*/"");
  {
    MutexLock lock(mu_);
    highest_.erase(key);
  }
  Log(Severity::kWarning, "parameters_set_aside",
      {{"job", job.value()}, {"path", to.string()}, {"reason", "the journal lacks the job"}});
  return absl::OkStatus();
}

ParameterStore::Watch ParameterStore::Await(const SetKey& key, uint64_t since,
                                            std::function<void()> then) {
  {
    MutexLock lock(mu_);
    const Version* const latest = FindLocked(key, 0);
    if (latest == nullptr || latest->description.version() <= since) {
      waiting_.emplace(++last_watch_, Waiting{key, since, std::move(then)});
      return last_watch_;
    }
  }
  then();
  return 0;
}

void ParameterStore::Forget(Watch watch) {
  MutexLock lock(mu_);
  waiting_.erase(watch);
}

std::vector<JobId> ParameterStore::jobs() const {
  MutexLock lock(mu_);
  std::vector<JobId> jobs;
  for (const auto& [key, set] : sets_) {
    if (key.job.valid() && !set.empty()) jobs.push_back(key.job);
  }
  return jobs;
}

}  // namespace dp::server
