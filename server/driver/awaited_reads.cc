#include "server/driver/awaited_reads.h"

#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "base/overloaded.h"
#include "store/awaited_keys.h"

namespace dp::server {
namespace {

using Kind = core::Topic::Kind;

bool DependsOnValue(const StoreOperation& read) {
  return !std::holds_alternative<StoreQueueLength>(read);
}

bool DependsOnQueue(const StoreOperation& read) {
  return std::holds_alternative<StoreQueueLength>(read) || std::holds_alternative<StoreCheck>(read);
}

std::vector<std::string> NamesOf(const StoreOperation& read) {
  return AwaitedKeys(absl::MakeConstSpan(&read, 1)).value();
}

// True if a read asks only whether one key exists. If a read needs the value, it cannot be answered
// once the value is gone.
bool AsksForPresence(const StoreOperation& read) {
  const auto* check = std::get_if<StoreCheck>(&read);
  return check != nullptr && check->keys.size() == 1;
}

bool FoundOutsideQueues(const StoreOperation& read, const KeyValues& store) {
  if (!DependsOnQueue(read)) return store.Found(read);
  const auto* check = std::get_if<StoreCheck>(&read);
  const auto has_value = [&](const std::string& key) { return store.Find(key) != nullptr; };
  return check != nullptr && absl::c_all_of(check->keys, has_value);
}

// The one key of a read: relays send reads of one key each.
absl::string_view KeyIn(const StoreOperation& read) {
  return std::visit(
      Overloaded{[](const StoreCheck& check) -> absl::string_view {
                   if (check.keys.empty()) return "";
                   return check.keys[0];
                 },
                 [](const StoreList& list) -> absl::string_view { return list.prefix; },
                 [](const auto& verb) -> absl::string_view { return verb.key; }},
      read);
}

}  // namespace

AwaitedReads::AwaitedReads(std::vector<StoreOperation> reads, Mode mode)
    : reads_(std::move(reads)), mode_(mode) {
  if (mode == Mode::kTogether) return;
  results_.resize(reads_.size());
  unmet_ = reads_.size();
  for (size_t i = 0; i < reads_.size(); ++i) by_name_[KeyIn(reads_[i])].push_back(i);
}

bool AwaitedReads::AllFound(const KeyValues& store, Waiters::Changed changed) {
  if (mode_ == Mode::kTogether) return AllThere(store);
  if (!std::exchange(looked_, true)) LookAtAll(store);
  for (const core::Topic* topic : changed) {
    const auto named = by_name_.find(topic->key);
    if (named == by_name_.end()) continue;
    // The key was absent, so its first change must have set it.
    for (const size_t read : named->second) LookAt(read, store, topic->kind == Kind::kStoreKey);
  }
  return unmet_ == 0;
}

// A wait for many keys is asked again at each change. The key that was missing last is checked
// first, so that most calls check one key only.
bool AwaitedReads::AllThere(const KeyValues& store) {
  const auto missing = [&](size_t read) { return !store.Found(reads_[read]); };
  if (missing_ < reads_.size() && missing(missing_)) return false;
  missing_ = 0;
  while (missing_ < reads_.size() && !missing(missing_)) ++missing_;
  return missing_ == reads_.size();
}

// Ignores elements of queues, which may be offered to other callers.
void AwaitedReads::LookAtAll(const KeyValues& store) {
  for (size_t i = 0; i < reads_.size(); ++i) {
    if (FoundOutsideQueues(reads_[i], store)) LookAt(i, store, /*was_there=*/false);
  }
}

void AwaitedReads::LookAt(size_t read, const KeyValues& store, bool was_there) {
  StoreResult& result = results_[read];
  if (result.found) return;
  if (store.Found(reads_[read])) {
    result = std::move(store.Read(absl::MakeConstSpan(&reads_[read], 1)).value().front());
  } else {
    result.found = was_there && AsksForPresence(reads_[read]);
  }
  if (result.found) --unmet_;
}

std::vector<StoreResult> AwaitedReads::Results(const KeyValues& store) const {
  return mode_ == Mode::kEach ? results_ : store.Read(reads_).value();
}

std::vector<core::Topic> StoreTopics(JobId job, absl::Span<const StoreOperation> reads) {
  std::vector<core::Topic> topics{{.kind = Kind::kWorldState, .id = job.value()}};
  for (const StoreOperation& read : reads) {
    for (const std::string& name : NamesOf(read)) {
      if (DependsOnValue(read)) topics.push_back({Kind::kStoreKey, job.value(), name});
      if (DependsOnQueue(read)) topics.push_back({Kind::kStoreElement, job.value(), name});
    }
  }
  return topics;
}

}  // namespace dp::server
