#include "base/store/key_values.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/overloaded.h"
#include "base/status.h"

namespace dp {
namespace {

// Keys are bytes and may be long: what an error shows of one is neither.
std::string Printable(absl::string_view key) {
  constexpr size_t kBytesShown = 64;
  return absl::StrCat("'", absl::CHexEscape(key.substr(0, kBytesShown)),
                      key.size() > kBytesShown ? "...'" : "'");
}

using Changes = std::map<std::string, std::optional<std::string>>;

}  // namespace

// One batch in progress: its changes lie over the map, which it only reads.
class KeyValues::Batch {
 public:
  Batch(const Map& entries, const KeyValueLimits& limits) : entries_(entries), limits_(limits) {}

  absl::StatusOr<StoreResult> Run(const StoreOperation& operation) {
    return std::visit([this](const auto& verb) { return Run(verb); }, operation);
  }
  const Changes& changes() const { return changes_; }

 private:
  const std::string* Find(const std::string& key) const {
    if (auto change = changes_.find(key); change != changes_.end())
      return change->second.has_value() ? &*change->second : nullptr;
    auto entry = entries_.find(key);
    return entry == entries_.end() ? nullptr : &entry->second;
  }

  absl::Status Put(const std::string& key, std::string value) {
    if (key.size() > limits_.key_bytes)
      return absl::ResourceExhaustedError(absl::StrCat("store key ", Printable(key), " has ",
                                                       key.size(), " bytes, the limit is ",
                                                       limits_.key_bytes));
    if (value.size() > limits_.value_bytes)
      return absl::ResourceExhaustedError(
          absl::StrCat("store value of key ", Printable(key), " has ", value.size(),
                       " bytes, the limit is ", limits_.value_bytes));
    changes_.insert_or_assign(key, std::move(value));
    return absl::OkStatus();
  }

  absl::StatusOr<StoreResult> Run(const StoreSet& set) {
    DP_RETURN_IF_ERROR(Put(set.key, set.value));
    return StoreResult{};
  }

  absl::StatusOr<StoreResult> Run(const StoreGet& get) {
    const std::string* value = Find(get.key);
    if (value == nullptr) return StoreResult{};
    return StoreResult{.found = true, .value = *value};
  }

  absl::StatusOr<StoreResult> Run(const StoreAdd& add) {
    const std::string* value = Find(add.key);
    int64_t number = 0;
    if (value != nullptr && !absl::SimpleAtoi(*value, &number))
      return absl::InvalidArgumentError(absl::StrCat(
          "store add to key ", Printable(add.key), ": its value is no decimal number of 64 bits"));
    int64_t sum = 0;
    if (__builtin_add_overflow(number, add.amount, &sum))
      return absl::InvalidArgumentError(absl::StrCat("store add to key ", Printable(add.key), ": ",
                                                     number, " + ", add.amount,
                                                     " does not fit 64 bits"));
    DP_RETURN_IF_ERROR(Put(add.key, absl::StrCat(sum)));
    return StoreResult{.number = sum};
  }

  absl::StatusOr<StoreResult> Run(const StoreCompareSet& compare_set) {
    const std::string* value = Find(compare_set.key);
    const bool equal =
        value == nullptr ? compare_set.expected.empty() : *value == compare_set.expected;
    if (equal) {
      DP_RETURN_IF_ERROR(Put(compare_set.key, compare_set.desired));
      return StoreResult{.found = true, .value = compare_set.desired};
    }
    return StoreResult{.value = value == nullptr ? compare_set.expected : *value};
  }

  absl::StatusOr<StoreResult> Run(const StoreDelete& erase) {
    const bool found = Find(erase.key) != nullptr;
    if (found) changes_.insert_or_assign(erase.key, std::nullopt);
    return StoreResult{.found = found};
  }

  absl::StatusOr<StoreResult> Run(const StoreCheck& check) {
    return StoreResult{.found = std::all_of(check.keys.begin(), check.keys.end(),
                                            [this](const auto& key) { return Find(key); })};
  }

  const Map& entries_;
  const KeyValueLimits& limits_;
  Changes changes_;
};

absl::StatusOr<KeyValues::Applied> KeyValues::Apply(absl::Span<const StoreOperation> operations) {
  Batch batch(entries_, limits_);
  Applied applied;
  applied.results.reserve(operations.size());
  for (const StoreOperation& operation : operations) {
    DP_ASSIGN_OR_RETURN(StoreResult result, batch.Run(operation));
    applied.results.push_back(std::move(result));
  }
  size_t bytes_after = 0;
  DP_RETURN_IF_ERROR(CheckTotals(batch.changes(), &bytes_after));
  for (const auto& [key, value] : batch.changes()) {
    const std::string* before = Find(key);
    const bool same =
        value.has_value() ? before != nullptr && *before == *value : before == nullptr;
    if (same) continue;
    applied.changed.push_back(key);
    if (value.has_value())
      entries_.insert_or_assign(key, *value);
    else
      entries_.erase(key);
  }
  bytes_ = bytes_after;
  return applied;
}

absl::Status KeyValues::CheckTotals(const Changes& changes, size_t* bytes_after) const {
  size_t keys = entries_.size();
  size_t bytes = bytes_;
  for (const auto& [key, value] : changes) {
    if (const std::string* before = Find(key); before != nullptr) {
      keys -= 1;
      bytes -= key.size() + before->size();
    }
    if (value.has_value()) {
      keys += 1;
      bytes += key.size() + value->size();
    }
  }
  *bytes_after = bytes;
  // A batch that frees is never refused, whatever the limits have become.
  if (keys > limits_.keys && keys > entries_.size())
    return absl::ResourceExhaustedError(
        absl::StrCat("store would hold ", keys, " keys, the limit is ", limits_.keys));
  if (bytes > limits_.total_bytes && bytes > bytes_)
    return absl::ResourceExhaustedError(
        absl::StrCat("store would hold ", bytes, " bytes, the limit is ", limits_.total_bytes));
  return absl::OkStatus();
}

const std::string* KeyValues::Find(absl::string_view key) const {
  auto entry = entries_.find(key);
  return entry == entries_.end() ? nullptr : &entry->second;
}

std::vector<std::string> KeyValues::Missing(absl::Span<const std::string> keys) const {
  std::vector<std::string> missing;
  for (const std::string& key : keys)
    if (Find(key) == nullptr) missing.push_back(key);
  return missing;
}

}  // namespace dp
