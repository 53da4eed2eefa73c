#include "server/parameters/parameter_sets.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp::server {
namespace {

absl::Status Unknown(const SetKey& key, uint64_t version) {
  const std::string remedy = "; see 'dpctl weights ls'";
  if (version == 0) {
    return absl::NotFoundError(absl::StrCat(key.ToString(), " has no parameters", remedy));
  }
  return absl::NotFoundError(
      absl::StrCat(key.ToString(), " has no parameters of version ", version, remedy));
}

absl::Status TooMany(const SetKey& key, absl::string_view whose, size_t limit,
                     absl::string_view of_what) {
  return absl::ResourceExhaustedError(
      absl::StrCat(key.ToString(), ": ", whose, " ", limit, " ", of_what,
                   ", which is the limit; remove what nobody needs (dpctl weights rm)"));
}

}  // namespace

absl::StatusOr<ParameterSets::Place> ParameterSets::Begin(const SetKey& key,
                                                          const std::string& owner) {
  MutexLock lock(mu_);
  DP_RETURN_IF_ERROR(CheckRoom(key));
  Set& set = SetOf(key);
  if (set.owner.empty() && set.versions.empty()) set.owner = owner;
  if (!set.owner.empty() && set.owner != owner) {
    return absl::AbortedError(
        absl::StrCat(key.ToString(), " has become that of another user; push again"));
  }
  if (set.aborted) {
    return absl::UnavailableError(absl::StrCat(key.ToString(), " is being removed; try again"));
  }
  ++set.places;
  return Place(nullptr, [this, key](void*) { End(key); });
}

absl::Status ParameterSets::CheckRoom(const SetKey& key) const {
  if (versions_ >= limits_.versions) {
    return TooMany(key, "the coordinator keeps", limits_.versions, "versions of parameters");
  }
  const auto found = sets_.find(key);
  if (found == sets_.end()) {
    if (sets_.size() < limits_.sets) return absl::OkStatus();
    return TooMany(key, "the coordinator keeps", limits_.sets, "sets of parameters");
  }
  const Set& set = found->second;
  const auto pushed =
      absl::c_count_if(set.versions, [](const auto& each) { return !each.second.of_table; });
  if (static_cast<size_t>(pushed) + set.places < limits_.versions_of_set) return absl::OkStatus();
  return TooMany(key, "it has", limits_.versions_of_set, "versions, or pushes that go on");
}

void ParameterSets::End(const SetKey& key) {
  MutexLock lock(mu_);
  Set& set = sets_[key];
  if (--set.places == 0) set.aborted = false;
  DropIfEmpty(key);
}

ParameterSets::Set& ParameterSets::SetOf(const SetKey& key) {
  const auto [set, is_new] = sets_.try_emplace(key);
  if (!is_new) return set->second;
  const auto gone = absl::c_find_if(gone_, [&key](const auto& each) { return each.first == key; });
  if (gone != gone_.end()) {
    set->second.highest = gone->second;
    gone_.erase(gone);
  }
  return set->second;
}

void ParameterSets::DropIfEmpty(const SetKey& key) {
  const auto set = sets_.find(key);
  if (set == sets_.end() || set->second.places + set->second.damaged > 0) return;
  if (!set->second.versions.empty()) return;
  if (set->second.highest > 0) gone_.emplace_back(key, set->second.highest);
  if (gone_.size() > kGoneKept) gone_.pop_front();
  sets_.erase(set);
}

uint64_t ParameterSets::NextNumber(const SetKey& key) {
  MutexLock lock(mu_);
  return ++sets_[key].highest;
}

void ParameterSets::AbortBegun(const SetKey& key) {
  MutexLock lock(mu_);
  const auto set = sets_.find(key);
  if (set != sets_.end() && set->second.places > 0) set->second.aborted = true;
}

absl::Status ParameterSets::Add(const SetKey& key, Version version) {
  std::vector<std::function<void()>> woken;
  {
    MutexLock lock(mu_);
    const uint64_t number = version.description.version();
    Set& set = SetOf(key);
    if (set.aborted) {
      return absl::AbortedError(
          absl::StrCat(key.ToString(), " was removed during the push; push again"));
    }
    if (set.owner.empty()) set.owner = version.description.owner();
    set.highest = std::max(set.highest, number);
    versions_ += set.versions.insert_or_assign(number, std::move(version)).second ? 1 : 0;
    woken = TakeWoken(key, number);
  }
  for (const auto& then : woken) then();
  return absl::OkStatus();
}

void ParameterSets::AddDamaged(const SetKey& key, uint64_t number) {
  MutexLock lock(mu_);
  Set& set = SetOf(key);
  set.highest = std::max(set.highest, number);
  ++set.damaged;
}

uint64_t ParameterSets::Erase(const SetKey& key, const std::vector<uint64_t>& versions,
                              const std::string& request_id) {
  uint64_t freed = 0;
  MutexLock lock(mu_);
  const auto set = sets_.find(key);
  for (const uint64_t version : versions) {
    if (set == sets_.end()) break;
    const auto known = set->second.versions.find(version);
    if (known == set->second.versions.end()) continue;
    freed += known->second.file_bytes;
    set->second.versions.erase(known);
    --versions_;
  }
  DropIfEmpty(key);
  if (!request_id.empty()) removals_.push_back({key, request_id, freed});
  if (removals_.size() > kRemovalsKept) removals_.pop_front();
  return freed;
}

void ParameterSets::ForgetGone(const SetKey& key) {
  MutexLock lock(mu_);
  std::erase_if(gone_, [&key](const auto& each) { return each.first == key; });
}

std::vector<std::function<void()>> ParameterSets::TakeWoken(const SetKey& key, uint64_t number) {
  std::vector<std::function<void()>> woken;
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

ParameterSets::Watch ParameterSets::Await(const SetKey& key, uint64_t since,
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

void ParameterSets::Forget(Watch watch) {
  std::function<void()> dropped;  // destroyed without the lock: it may own a call
  MutexLock lock(mu_);
  const auto found = waiting_.find(watch);
  if (found == waiting_.end()) return;
  dropped = std::move(found->second.then);
  waiting_.erase(found);
}

const ParameterSets::Set* ParameterSets::FindSet(const SetKey& key) const {
  const auto set = sets_.find(key);
  return set == sets_.end() || set->second.versions.empty() ? nullptr : &set->second;
}

const ParameterSets::Version* ParameterSets::FindLocked(const SetKey& key, uint64_t version) const {
  const Set* const set = FindSet(key);
  if (set == nullptr) return nullptr;
  if (version == 0) return &set->versions.rbegin()->second;
  const auto found = set->versions.find(version);
  return found == set->versions.end() ? nullptr : &found->second;
}

absl::StatusOr<v1::ParameterVersion> ParameterSets::Find(const SetKey& key,
                                                         uint64_t version) const {
  MutexLock lock(mu_);
  const Version* const found = FindLocked(key, version);
  if (found == nullptr) return Unknown(key, version);
  return found->description;
}

absl::StatusOr<uint64_t> ParameterSets::LatestTable(const SetKey& key) const {
  MutexLock lock(mu_);
  const Set* const set = FindSet(key);
  if (set == nullptr) return Unknown(key, 0);
  for (auto it = set->versions.rbegin(); it != set->versions.rend(); ++it) {
    if (it->second.of_table) return it->first;
  }
  return Unknown(key, 0);
}

std::vector<uint64_t> ParameterSets::SurplusOfTable(const SetKey& key, int kept) const {
  MutexLock lock(mu_);
  std::vector<uint64_t> surplus;
  const Set* const set = FindSet(key);
  if (set == nullptr) return surplus;
  int seen = 0;
  for (auto it = set->versions.rbegin(); it != set->versions.rend(); ++it) {
    if (it->second.of_table && ++seen > kept) surplus.push_back(it->first);
  }
  return surplus;
}

std::optional<v1::ParameterVersion> ParameterSets::FindPushed(const SetKey& key,
                                                              const std::string& request_id) const {
  MutexLock lock(mu_);
  const Set* const set = FindSet(key);
  if (set == nullptr || request_id.empty()) return std::nullopt;
  for (const auto& [number, version] : set->versions) {
    if (!version.of_table && version.request_id == request_id) return version.description;
  }
  return std::nullopt;
}

std::optional<uint64_t> ParameterSets::FindRemoved(const SetKey& key,
                                                   const std::string& request_id) const {
  MutexLock lock(mu_);
  if (request_id.empty()) return std::nullopt;
  for (const Removal& each : removals_) {
    if (each.request_id == request_id && each.key == key) return each.bytes;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<v1::ParameterVersion>> ParameterSets::Versions(const SetKey& key,
                                                                          uint64_t before,
                                                                          size_t max) const {
  MutexLock lock(mu_);
  const Set* const set = FindSet(key);
  if (set == nullptr) return Unknown(key, 0);
  std::vector<v1::ParameterVersion> versions;
  auto it = before == 0 ? set->versions.end() : set->versions.lower_bound(before);
  while (it != set->versions.begin() && versions.size() < max) {
    versions.push_back((--it)->second.description);
  }
  return versions;
}

std::vector<v1::ParameterVersion> ParameterSets::Latest(const SetKey& after, size_t max) const {
  MutexLock lock(mu_);
  std::vector<v1::ParameterVersion> latest;
  const auto add = [&](auto from, auto to) {
    for (; from != to && latest.size() < max; ++from) {
      const Set& set = from->second;
      if (!set.versions.empty()) latest.push_back(set.versions.rbegin()->second.description);
    }
  };
  // In the map names come first, as sets of no job.
  const auto jobs = sets_.lower_bound({.job = JobId(1)});
  if (after.name.empty()) {
    add(sets_.lower_bound({.job = JobId(after.job.value() + 1)}), sets_.end());
  }
  add(after.name.empty() ? sets_.begin() : sets_.upper_bound({.name = after.name}), jobs);
  return latest;
}

std::string ParameterSets::OwnerOf(const SetKey& key) const {
  MutexLock lock(mu_);
  const auto set = sets_.find(key);
  return set == sets_.end() ? "" : set->second.owner;
}

std::vector<JobId> ParameterSets::jobs() const {
  MutexLock lock(mu_);
  std::vector<JobId> jobs;
  for (const auto& [key, set] : sets_) {
    if (key.job.valid() && !set.versions.empty()) jobs.push_back(key.job);
  }
  return jobs;
}

}  // namespace dp::server
