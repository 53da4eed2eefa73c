#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/id.h"
#include "base/mutex.h"
#include "dp/v1/parameters.pb.h"
#include "server/parameters/set_key.h"

namespace dp::server {

// Knows all sets of parameters: their versions without the tensors, who owns them, and who waits
// for the next version. In memory; the store has the files. Thread-safe.
class ParameterSets {
 public:
  struct Limits {
    // Two for each finished job that stays on record. dpctl lists all.
    size_t sets = 20'000;
    // Versions that were pushed, and pushes that go on; states of tables have a bound of their own.
    // Somebody who keeps more wants a file system.
    size_t versions_of_set = 1'000;
    // Each takes up to 1 kB of memory.
    size_t versions = 100'000;  // of all sets
  };
  struct Version {
    v1::ParameterVersion description;  // without tensors
    std::string request_id;
    uint64_t file_bytes = 0;
    bool of_table = false;
  };
  // Holds a place for one version of a set. Given back when destroyed.
  using Place = std::shared_ptr<void>;
  using Watch = uint64_t;
  static constexpr size_t kAll = std::numeric_limits<size_t>::max();
  // Removals whose answers a repetition gets, the latest ones. A client repeats its call at once.
  static constexpr size_t kRemovalsKept = 1'000;
  // Sets that are gone and whose next version does not begin at 1 again, the latest ones.
  static constexpr size_t kGoneKept = 1'000;

  explicit ParameterSets(const Limits& limits) : limits_(limits) {}

  // Begins a version of a set, which is a new one of `owner` if there is none. Must not outlive
  // this. Errors: ResourceExhausted names the limit; Aborted the set has another owner; Unavailable
  // the set is being removed.
  absl::StatusOr<Place> Begin(const SetKey& key, const std::string& owner) DP_EXCLUDES(mu_);
  // The number of the next version. The caller has a place in the set.
  uint64_t NextNumber(const SetKey& key) DP_EXCLUDES(mu_);
  // Makes a version known, and calls those who wait for it. Its number is in the description.
  // Errors: Aborted the set was removed since the version was begun.
  absl::Status Add(const SetKey& key, Version version) DP_EXCLUDES(mu_);
  // No version of the set that has been begun becomes known.
  void AbortBegun(const SetKey& key) DP_EXCLUDES(mu_);
  // A file that cannot be read has this number, which no other version gets.
  void AddDamaged(const SetKey& key, uint64_t number) DP_EXCLUDES(mu_);
  // Forgets versions, and returns the bytes of their files. Keeps that answer for the request_id;
  // empty: for none.
  uint64_t Erase(const SetKey& key, const std::vector<uint64_t>& versions,
                 const std::string& request_id) DP_EXCLUDES(mu_);
  // The next version of a set that is gone is number 1.
  void ForgetGone(const SetKey& key) DP_EXCLUDES(mu_);
  // Calls `then` once, when the set has a version above `since`, perhaps at once, on any thread. It
  // must not block. Returns a number for Forget.
  Watch Await(const SetKey& key, uint64_t since, std::function<void()> then) DP_EXCLUDES(mu_);
  // Drops a watch that has not been called.
  void Forget(Watch watch) DP_EXCLUDES(mu_);

  // Version 0 is the latest. Errors: NotFound.
  absl::StatusOr<v1::ParameterVersion> Find(const SetKey& key, uint64_t version) const;
  // The latest version that is the state of a table. Errors: NotFound.
  absl::StatusOr<uint64_t> LatestTable(const SetKey& key) const;
  // Versions that are states of a table, but the latest `kept`.
  std::vector<uint64_t> SurplusOfTable(const SetKey& key, int kept) const;
  // The version of the set that this push made, if it is still there. None is the state of a table:
  // releases before gave those request ids that a push may have, too.
  std::optional<v1::ParameterVersion> FindPushed(const SetKey& key,
                                                 const std::string& request_id) const;
  // The answer of the removal with this request_id.
  std::optional<uint64_t> FindRemoved(const SetKey& key, const std::string& request_id) const;
  // Below `before` if that is not 0, newest first, at most `max`. Errors: NotFound the set has no
  // version.
  absl::StatusOr<std::vector<v1::ParameterVersion>> Versions(const SetKey& key, uint64_t before,
                                                             size_t max) const;
  // The latest version of each set behind `after`, at most `max`: jobs first, then names.
  std::vector<v1::ParameterVersion> Latest(const SetKey& after, size_t max) const;
  // The owner of a named set; empty: nobody in particular, or there is no such set.
  std::string OwnerOf(const SetKey& key) const;
  std::vector<JobId> jobs() const;  // that have a set

 private:
  struct Set {
    std::map<uint64_t, Version> versions;  // by number
    std::string owner;                     // who began the first version
    uint64_t highest = 0;                  // number that was given: none comes twice
    size_t places = 0;                     // versions that have been begun
    bool aborted = false;                  // these must not become known
    size_t damaged = 0;                    // files that cannot be read
  };
  struct Removal {
    SetKey key;
    std::string request_id;
    uint64_t bytes = 0;
  };
  struct Waiting {
    SetKey key;
    uint64_t since = 0;
    std::function<void()> then;
  };

  void End(const SetKey& key) DP_EXCLUDES(mu_);
  absl::Status CheckRoom(const SetKey& key) const DP_REQUIRES(mu_);
  // Makes the set, if there is none.
  Set& SetOf(const SetKey& key) DP_REQUIRES(mu_);
  // Forgets the set if nothing holds it.
  void DropIfEmpty(const SetKey& key) DP_REQUIRES(mu_);
  // Null: it has no version.
  const Set* FindSet(const SetKey& key) const DP_REQUIRES(mu_);
  const Version* FindLocked(const SetKey& key, uint64_t version) const DP_REQUIRES(mu_);
  std::vector<std::function<void()>> TakeWoken(const SetKey& key, uint64_t number) DP_REQUIRES(mu_);

  const Limits limits_;

  mutable Mutex mu_;
  std::map<SetKey, Set> sets_ DP_GUARDED_BY(mu_);
  size_t versions_ DP_GUARDED_BY(mu_) = 0;  // of all sets
  // Sets that are gone, and their highest version; oldest first.
  std::deque<std::pair<SetKey, uint64_t>> gone_ DP_GUARDED_BY(mu_);
  std::deque<Removal> removals_ DP_GUARDED_BY(mu_);  // oldest first
  Watch last_watch_ DP_GUARDED_BY(mu_) = 0;
  std::map<Watch, Waiting> waiting_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::server
