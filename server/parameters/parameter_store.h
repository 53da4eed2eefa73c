#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/mutex.h"
#include "dp/v1/parameters.pb.h"
#include "server/parameters/parameter_disk.h"
#include "server/parameters/parameter_file.pb.h"
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
};

// The sets of parameters on disk, one file a version: <dir>/job-7/12.params. It knows every version
// in memory, without its tensors. Files are read and written by the threads that call, without the
// lock. Thread-safe. Blocking calls say so.
class ParameterStore {
 public:
  // Removals whose answers a repetition gets, the latest ones. A client repeats its call at once.
  static constexpr size_t kRemovalsKept = 1'000;

  // A version that is being pushed. Ends its reservation of disk space when destroyed. Used by one
  // thread at a time. Must not outlive the store.
  class Push {
   public:
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
    Push(ParameterStore& store, SetKey key, parameters::StoredVersion description,
         ParameterDisk::Room room, VersionDraft draft);

    ParameterStore& store_;
    const SetKey key_;
    parameters::StoredVersion description_;
    ParameterDisk::Room room_;
    VersionDraft draft_;  // behind its room: its file goes before the room is given back
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

  // Version 0 is the latest. Without tensors. Errors: NotFound.
  absl::StatusOr<v1::ParameterVersion> Find(const SetKey& key, uint64_t version) const;
  // The latest version that is the state of a table. Errors: NotFound.
  absl::StatusOr<uint64_t> LatestTable(const SetKey& key) const;
  // The version of the set that this push made, if it is still there.
  std::optional<v1::ParameterVersion> FindPushed(const SetKey& key,
                                                 const std::string& request_id) const;
  // Opens the file. Blocking. Errors: NotFound; DataLoss.
  absl::StatusOr<VersionReader> Open(const SetKey& key, uint64_t version) const;
  // Newest first. Errors: NotFound the set has no version.
  absl::StatusOr<std::vector<v1::ParameterVersion>> Versions(const SetKey& key) const;
  // The latest version of each set, jobs first.
  std::vector<v1::ParameterVersion> Latest() const;
  // The owner of a named set; empty: nobody in particular, or there is no such set.
  std::string OwnerOf(const SetKey& key) const;

  // Removes one version, or with 0 all, for good. Returns the bytes that are free again. A call
  // with the request_id of one that succeeded gets its answer, until the coordinator restarts or
  // kRemovalsKept others have followed. A version whose file cannot be removed stays. Blocking.
  // Errors: NotFound; Internal.
  absl::StatusOr<uint64_t> Remove(const SetKey& key, uint64_t version,
                                  const std::string& request_id = "");

  // Moves the set of a job aside, to a folder beside it that is no set: another job may get its
  // number. Blocking. Errors: NotFound; Internal.
  absl::Status SetAside(JobId job);

  // Calls `then` once, when the set has a version above `since`, perhaps at once, on any thread. It
  // must not block. Returns a number for Forget.
  using Watch = uint64_t;
  Watch Await(const SetKey& key, uint64_t since, std::function<void()> then);
  // Drops a watch that has not been called.
  void Forget(Watch watch);

  std::vector<JobId> jobs() const;  // that have a set
  uint64_t bytes() const { return disk_.bytes(); }

 private:
  struct Version {
    v1::ParameterVersion description;  // without tensors
    std::string request_id;
    uint64_t file_bytes = 0;
    bool of_table = false;
  };
  struct Waiting {
    SetKey key;
    uint64_t since = 0;
    std::function<void()> then;
  };
  using Set = std::map<uint64_t, Version>;  // by version
  struct Removal {
    SetKey key;
    std::string request_id;
    uint64_t bytes = 0;
  };

  std::filesystem::path FileOf(const SetKey& key, uint64_t version) const;
  absl::Status LoadFolder(const std::filesystem::path& folder) DP_EXCLUDES(mu_);
  absl::StatusOr<VersionDraft> NewDraft(const SetKey& key) DP_EXCLUDES(mu_);
  // Makes a placed version known, and returns the calls that waited for it.
  std::vector<std::function<void()>> Add(const SetKey& key, Version version) DP_EXCLUDES(mu_);
  // Removes states of a table beyond those that stay.
  void Prune(const SetKey& key) DP_EXCLUDES(mu_);
  // Forgets versions whose files are gone, and returns their bytes. Keeps that answer for the
  // request_id; empty: for none.
  uint64_t Erase(const SetKey& key, const std::vector<uint64_t>& versions,
                 const std::string& request_id) DP_EXCLUDES(mu_);
  const Version* FindLocked(const SetKey& key, uint64_t version) const DP_REQUIRES(mu_);
  const Removal* FindRemoval(const SetKey& key, const std::string& request_id) const
      DP_REQUIRES(mu_);

  const std::filesystem::path dir_;
  const ParameterLimits limits_;
  const Clock& clock_;
  ParameterDisk disk_;

  mutable Mutex mu_;
  std::map<SetKey, Set> sets_ DP_GUARDED_BY(mu_);
  // The highest version that each set ever had in this process: no number comes twice.
  std::map<SetKey, uint64_t> highest_ DP_GUARDED_BY(mu_);
  uint64_t drafts_ DP_GUARDED_BY(mu_) = 0;           // names temporary files
  std::deque<Removal> removals_ DP_GUARDED_BY(mu_);  // oldest first
  Watch last_watch_ DP_GUARDED_BY(mu_) = 0;
  std::map<Watch, Waiting> waiting_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::server
