#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/id.h"
#include "dp/v1/parameters.pb.h"
#include "server/parameters/parameter_disk.h"
#include "server/parameters/parameter_file.pb.h"
#include "server/parameters/parameter_sets.h"
#include "server/parameters/set_key.h"
#include "server/parameters/version_file.h"

namespace dp::server {

// Bounds on the disk. dp-coordinator's defaults: server/program/disk_shares.h.
struct ParameterLimits {
  static constexpr uint64_t kNone = ParameterDisk::kNone;

  uint64_t bytes_max = kNone;  // files of all sets together, those being pushed included
  // Pushes leave this much free on the disk, because a journal that finds no room ends the
  // coordinator.
  uint64_t disk_reserve = 0;
  // Versions that are states of a table and stay, of each job. Versions that were pushed stay until
  // somebody removes them.
  int table_versions = 2;
  ParameterSets::Limits sets = {};
};

// The sets of parameters on disk, one file a version: <dir>/job-7/12.params. It knows every version
// in memory, without its tensors (parameter_sets.h). Files are read and written by the threads that
// call, without a lock. Thread-safe. Blocking calls say so.
class ParameterStore {
 public:
  // A version that is being pushed. Ends its reservation of disk space when destroyed. Used by one
  // thread at a time. Must not outlive the store.
  class Push {
   public:
    ~Push();
    Push(const Push&) = delete;
    Push& operator=(const Push&) = delete;

    // Blocking. Errors: InvalidArgument more data than announced, or a chunk of a wrong size; those
    // of VersionDraft.
    absl::Status Append(absl::string_view data, uint32_t crc);
    absl::Status AppendArrays(absl::string_view data);
    // Makes the version durable, and known. Blocking. Errors: InvalidArgument less data than
    // announced; those of VersionDraft.
    absl::StatusOr<v1::ParameterVersion> Finish(parameters::StoredTable* table = nullptr);

   private:
    friend class ParameterStore;
    Push(ParameterStore& store, SetKey key, parameters::StoredVersion description);

    // Errors: as Begin.
    absl::Status Open(const std::string& owner, uint64_t file_bytes);

    ParameterStore& store_;
    const SetKey key_;
    parameters::StoredVersion description_;
    // In this order: the file goes before its room and its place are given back.
    ParameterSets::Place place_;
    std::optional<ParameterDisk::Room> room_;
    std::optional<VersionDraft> draft_;
  };

  // `available`: bytes that may still be written on the disk; null: no bound.
  ParameterStore(std::filesystem::path dir, const ParameterLimits& limits,
                 std::function<uint64_t()> available = {}, const Clock& clock = Clock::System());

  // Finds what is on the disk, and removes what a crash has left unfinished. Logs files that are
  // damaged, and leaves them. Blocking; call once, before all others. Errors: Internal.
  absl::Status Load();

  // Begins a version. `description` has all but version, time and checksums. `array_bytes` follow
  // the tensors. A request_id that the latest version of the set has gives AlreadyExists; Latest is
  // then the answer. Errors: InvalidArgument the tensors; ResourceExhausted; Internal. Blocking.
  absl::StatusOr<std::unique_ptr<Push>> Begin(const SetKey& key,
                                              const v1::ParameterVersion& description,
                                              const std::string& request_id,
                                              uint64_t array_bytes = 0);

  // As ParameterSets.
  absl::StatusOr<v1::ParameterVersion> Find(const SetKey& key, uint64_t version) const {
    return sets_.Find(key, version);
  }
  absl::StatusOr<uint64_t> LatestTable(const SetKey& key) const { return sets_.LatestTable(key); }
  std::optional<v1::ParameterVersion> FindPushed(const SetKey& key,
                                                 const std::string& request_id) const {
    return sets_.FindPushed(key, request_id);
  }
  absl::StatusOr<std::vector<v1::ParameterVersion>> Versions(
      const SetKey& key, uint64_t before = 0, size_t max = ParameterSets::kAll) const {
    return sets_.Versions(key, before, max);
  }
  std::vector<v1::ParameterVersion> Latest(const SetKey& after = {},
                                           size_t max = ParameterSets::kAll) const {
    return sets_.Latest(after, max);
  }
  std::string OwnerOf(const SetKey& key) const { return sets_.OwnerOf(key); }
  using Watch = ParameterSets::Watch;
  Watch Await(const SetKey& key, uint64_t since, std::function<void()> then) {
    return sets_.Await(key, since, std::move(then));
  }
  void Forget(Watch watch) { sets_.Forget(watch); }
  std::vector<JobId> jobs() const { return sets_.jobs(); }
  uint64_t bytes() const { return disk_.bytes(); }  // files and reservations

  // Opens the file. Blocking. Errors: NotFound; DataLoss.
  absl::StatusOr<VersionReader> Open(const SetKey& key, uint64_t version) const;
  // Removes one version, or with 0 all, for good. Returns the bytes that are free again. A call
  // with the request_id of one that succeeded gets its answer, until the coordinator restarts or
  // many others have followed. A version whose file cannot be removed stays. Blocking.
  // Errors: NotFound; Internal.
  absl::StatusOr<uint64_t> Remove(const SetKey& key, uint64_t version,
                                  const std::string& request_id = "");

  // Removes the set of a job that is gone, and ends what is being pushed to it. Blocking.
  // Errors: Internal.
  absl::Status Drop(JobId job);

  // Moves the set of a job aside, to a folder beside it that is no set: another job may get its
  // number. Blocking. Errors: NotFound; Internal.
  absl::Status SetAside(JobId job);

 private:
  std::filesystem::path FileOf(const SetKey& key, uint64_t version) const;
  absl::Status LoadFolder(const std::filesystem::path& folder);
  absl::StatusOr<VersionDraft> NewDraft(const SetKey& key);
  // Removes states of a table beyond those that stay.
  void Prune(const SetKey& key);
  std::vector<uint64_t> NumbersOf(const SetKey& key) const;  // its versions
  // Removes the folder of a set, unless it has files.
  void RemoveFolder(const SetKey& key);

  const std::filesystem::path dir_;
  const ParameterLimits limits_;
  const Clock& clock_;
  ParameterDisk disk_;
  ParameterSets sets_;
  std::atomic<uint64_t> drafts_ = 0;  // names temporary files
};

}  // namespace dp::server
