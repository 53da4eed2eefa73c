#include "server/parameters/parameter_store.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
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
constexpr char kAsidePrefix[] = "lost-";  // of folders that SetAside makes

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

void LogLeft(absl::string_view event, const std::filesystem::path& path, const absl::Status& why) {
  Log(Severity::kError, event, {{"path", path.string()}, {"error", std::string(why.message())}});
}

}  // namespace

ParameterStore::Push::Push(ParameterStore& store, SetKey key, parameters::StoredVersion description)
    : store_(store), key_(std::move(key)), description_(std::move(description)) {}

absl::Status ParameterStore::Push::Open(const std::string& owner, uint64_t file_bytes) {
  DP_ASSIGN_OR_RETURN(place_, store_.sets_.Begin(key_, owner));
  DP_ASSIGN_OR_RETURN(ParameterDisk::Room room, store_.disk_.Take(key_.ToString(), file_bytes));
  room_.emplace(std::move(room));
  DP_ASSIGN_OR_RETURN(VersionDraft draft, store_.NewDraft(key_));
  draft_.emplace(std::move(draft));
  return absl::OkStatus();
}

ParameterStore::Push::~Push() {
  const bool left_a_folder = draft_.has_value();
  draft_.reset();
  if (left_a_folder) store_.RemoveFolder(key_);
}

absl::Status ParameterStore::Push::Append(absl::string_view data, uint32_t crc) {
  const uint64_t announced = description_.version().bytes();
  const uint64_t left = announced - draft_->bytes();
  if (data.size() == std::min<uint64_t>(left, kParameterChunkBytes) && !data.empty()) {
    DP_RETURN_IF_ERROR(draft_->AppendChunk(data, crc));
    room_->Wrote(data.size());
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("data: a chunk has ", data.size(), " bytes, where ",
                   std::min<uint64_t>(left, kParameterChunkBytes), " must come: ", left,
                   " are left, in chunks of ", kParameterChunkBytes));
}

absl::Status ParameterStore::Push::AppendArrays(absl::string_view data) {
  DP_RETURN_IF_ERROR(draft_->AppendArrays(data));
  room_->Wrote(data.size());
  return absl::OkStatus();
}

absl::StatusOr<v1::ParameterVersion> ParameterStore::Push::Finish(parameters::StoredTable* table) {
  const uint64_t announced = description_.version().bytes();
  if (draft_->bytes() != announced) {
    return absl::InvalidArgumentError(absl::StrCat("data: the stream has ended after ",
                                                   draft_->bytes(), " of ", announced, " bytes"));
  }
  v1::ParameterVersion& version = *description_.mutable_version();
  version.set_version(store_.sets_.NextNumber(key_));
  *version.mutable_at() = ToProto(store_.clock_.Now());
  version.set_crc32c(draft_->crc());
  if (table != nullptr) description_.mutable_table()->Swap(table);
  ParameterSets::Version known = {.description = WithoutTensors(version),
                                  .request_id = description_.request_id(),
                                  .of_table = description_.has_table()};
  v1::ParameterVersion answer = known.description;
  DP_RETURN_IF_ERROR(SyncFolder(store_.dir_));  // the set's folder may be new
  known.file_bytes = room_->bytes();
  const std::filesystem::path file = store_.FileOf(key_, answer.version());
  DP_RETURN_IF_ERROR(draft_->Place(std::move(description_), file));
  if (const absl::Status added = store_.sets_.Add(key_, std::move(known)); !added.ok()) {
    std::error_code error;
    std::filesystem::remove(file, error);
    if (error) LogLeft("parameters_not_removed", file, FolderError(file, error));
    return added;
  }
  room_->Keep();
  store_.Prune(key_);
  return answer;
}

ParameterStore::ParameterStore(std::filesystem::path dir, const ParameterLimits& limits,
                               std::function<uint64_t()> available, const Clock& clock)
    : dir_(std::move(dir)),
      limits_(limits),
      clock_(clock),
      disk_(limits.bytes_max, limits.disk_reserve, std::move(available)),
      sets_(limits.sets) {}

std::filesystem::path ParameterStore::FileOf(const SetKey& key, uint64_t version) const {
  return dir_ / key.folder() / absl::StrCat(version, kSuffix);
}

absl::Status ParameterStore::Load() {
  std::error_code error;
  if (!std::filesystem::exists(dir_, error)) return absl::OkStatus();
  for (const auto& entry : std::filesystem::directory_iterator(dir_, error)) {
    const bool aside = absl::StartsWith(entry.path().filename().string(), kAsidePrefix);
    if (entry.is_directory() && !aside) DP_RETURN_IF_ERROR(LoadFolder(entry.path()));
  }
  return error ? FolderError(dir_, error) : absl::OkStatus();
}

absl::Status ParameterStore::LoadFolder(const std::filesystem::path& folder) {
  const absl::StatusOr<SetKey> key = KeyOf(folder.filename().string());
  if (!key.ok()) {
    LogLeft("parameters_not_read", folder, key.status());
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
    if (!reader.ok()) {
      LogLeft("parameters_not_read", path, reader.status());
      sets_.AddDamaged(*key, version);
      continue;
    }
    const parameters::StoredVersion& stored = reader->description();
    const uint64_t file_bytes = entry.file_size(error);
    disk_.Add(file_bytes);
    ParameterSets::Version known = {.description = WithoutTensors(stored.version()),
                                    .request_id = stored.request_id(),
                                    .file_bytes = file_bytes,
                                    .of_table = stored.has_table()};
    known.description.set_version(version);
    DP_RETURN_IF_ERROR(sets_.Add(*key, std::move(known)));
  }
  return error ? FolderError(folder, error) : absl::OkStatus();
}

absl::StatusOr<VersionDraft> ParameterStore::NewDraft(const SetKey& key) {
  const std::filesystem::path folder = dir_ / key.folder();
  const std::filesystem::path path = folder / absl::StrCat(++drafts_, kDraftSuffix);
  // Somebody may remove the folder meanwhile, because it is empty.
  constexpr int kAttempts = 3;
  for (int attempt = 1;; ++attempt) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return FolderError(folder, error);
    absl::StatusOr<VersionDraft> draft = VersionDraft::Create(path);
    if (attempt == kAttempts || !absl::IsNotFound(draft.status())) return draft;
  }
}

void ParameterStore::RemoveFolder(const SetKey& key) {
  std::error_code in_use;
  std::filesystem::remove(dir_ / key.folder(), in_use);
}

absl::StatusOr<std::unique_ptr<ParameterStore::Push>> ParameterStore::Begin(
    const SetKey& key, const v1::ParameterVersion& description, const std::string& request_id,
    uint64_t array_bytes) {
  DP_RETURN_IF_ERROR(CheckDescription(description));
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
  std::unique_ptr<Push> push(new Push(*this, key, std::move(stored)));
  DP_RETURN_IF_ERROR(push->Open(description.owner(), file_bytes));
  return push;
}

void ParameterStore::Prune(const SetKey& key) {
  for (const uint64_t version : sets_.SurplusOfTable(key, limits_.table_versions)) {
    const absl::Status removed = Remove(key, version).status();
    if (removed.ok() || absl::IsNotFound(removed)) continue;
    LogLeft("parameters_not_removed", FileOf(key, version), removed);
  }
}

absl::StatusOr<VersionReader> ParameterStore::Open(const SetKey& key, uint64_t version) const {
  DP_ASSIGN_OR_RETURN(const v1::ParameterVersion found, Find(key, version));
  absl::StatusOr<VersionReader> reader = VersionReader::Open(FileOf(key, found.version()));
  if (!absl::IsNotFound(reader.status())) return reader;
  // Its file goes before it is forgotten.
  return absl::NotFoundError(
      absl::StrCat(key.ToString(), ": version ", found.version(), " has just been removed"));
}

absl::StatusOr<uint64_t> ParameterStore::Remove(const SetKey& key, uint64_t version,
                                                const std::string& request_id) {
  if (const auto done = sets_.FindRemoved(key, request_id)) return *done;
  DP_RETURN_IF_ERROR(sets_.Find(key, version).status());
  std::vector<uint64_t> removed = version == 0 ? NumbersOf(key) : std::vector<uint64_t>{version};
  absl::Status failed;
  std::erase_if(removed, [&](uint64_t number) {
    std::error_code error;
    std::filesystem::remove(FileOf(key, number), error);
    if (error) failed = FolderError(FileOf(key, number), error);
    return bool{error};
  });
  const absl::Status synced = SyncFolder(dir_ / key.folder());
  if (!synced.ok() && !absl::IsNotFound(synced)) return synced;
  const uint64_t freed = sets_.Erase(key, removed, failed.ok() ? request_id : "");
  disk_.Free(freed);
  DP_RETURN_IF_ERROR(failed);
  if (version == 0) RemoveFolder(key);
  return freed;
}

absl::Status ParameterStore::Drop(JobId job) {
  const SetKey key = {.job = job};
  sets_.AbortBegun(key);
  const absl::Status removed = Remove(key, /*version=*/0).status();
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

std::vector<uint64_t> ParameterStore::NumbersOf(const SetKey& key) const {
  std::vector<uint64_t> numbers;
  const auto versions = sets_.Versions(key, /*before=*/0, ParameterSets::kAll);
  if (!versions.ok()) return numbers;
  for (const v1::ParameterVersion& each : *versions) numbers.push_back(each.version());
  return numbers;
}

absl::Status ParameterStore::SetAside(JobId job) {
  const SetKey key = {.job = job};
  DP_RETURN_IF_ERROR(sets_.Find(key, 0).status());
  const std::filesystem::path from = dir_ / key.folder();
  const std::filesystem::path to =
      dir_ / absl::StrCat(kAsidePrefix, key.folder(), "-", absl::ToUnixMicros(clock_.Now()));
  std::error_code error;
  std::filesystem::rename(from, to, error);
  if (error) return FolderError(from, error);
  DP_RETURN_IF_ERROR(SyncFolder(dir_));
  disk_.Free(sets_.Erase(key, NumbersOf(key), /*request_id=*/""));
  sets_.ForgetGone(key);
  Log(Severity::kWarning, "parameters_set_aside",
      {{"job", job.value()}, {"path", to.string()}, {"reason", "the journal lacks the job"}});
  return absl::OkStatus();
}

}  // namespace dp::server
