#include "store/store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status.h"

namespace dp {
namespace {

absl::StatusOr<StoreResult> TheOne(absl::StatusOr<std::vector<StoreResult>> results) {
  if (!results.ok()) return results.status();
  if (results->size() != 1) {
    return absl::InternalError(
        absl::StrCat("store answered ", results->size(), " results to one operation"));
  }
  return std::move(results->front());
}

absl::StatusOr<StoreResult> ExecuteOne(Store& store, StoreOperation operation) {
  return TheOne(store.Execute({std::move(operation)}));
}

absl::StatusOr<StoreResult> AwaitOne(Store& store, StoreOperation read, absl::Duration timeout) {
  return TheOne(store.Await({std::move(read)}, timeout));
}

StoreCheck CheckOf(absl::Span<const std::string> keys) { return {{keys.begin(), keys.end()}}; }

}  // namespace

absl::Status Store::Set(absl::string_view key, absl::string_view value) {
  return ExecuteOne(*this, StoreSet{std::string(key), std::string(value)}).status();
}

absl::Status Store::MultiSet(absl::Span<const Pair> pairs) {
  std::vector<StoreOperation> sets;
  for (const Pair& pair : pairs) sets.push_back(StoreSet{pair.key, pair.value});
  return Execute(sets).status();
}

absl::Status Store::Append(absl::string_view key, absl::string_view value) {
  return ExecuteOne(*this, StoreAppend{std::string(key), std::string(value)}).status();
}

absl::StatusOr<std::string> Store::Get(absl::string_view key, absl::Duration timeout) {
  DP_ASSIGN_OR_RETURN(StoreResult result, AwaitOne(*this, StoreGet{std::string(key)}, timeout));
  return std::move(result.value);
}

absl::StatusOr<std::vector<std::string>> Store::MultiGet(absl::Span<const std::string> keys,
                                                         absl::Duration timeout) {
  std::vector<StoreOperation> gets;
  for (const std::string& key : keys) gets.push_back(StoreGet{key});
  DP_ASSIGN_OR_RETURN(std::vector<StoreResult> results, Await(gets, timeout));
  std::vector<std::string> values;
  for (StoreResult& result : results) values.push_back(std::move(result.value));
  return values;
}

absl::Status Store::Wait(absl::Span<const std::string> keys, absl::Duration timeout) {
  return AwaitOne(*this, CheckOf(keys), timeout).status();
}

absl::StatusOr<bool> Store::Check(absl::Span<const std::string> keys) {
  DP_ASSIGN_OR_RETURN(StoreResult result, ExecuteOne(*this, CheckOf(keys)));
  return result.found;
}

absl::StatusOr<int64_t> Store::Add(absl::string_view key, int64_t amount) {
  DP_ASSIGN_OR_RETURN(StoreResult result, ExecuteOne(*this, StoreAdd{std::string(key), amount}));
  return result.number;
}

absl::StatusOr<std::string> Store::CompareSet(absl::string_view key, absl::string_view expected,
                                              absl::string_view desired) {
  DP_ASSIGN_OR_RETURN(StoreResult result,
                      ExecuteOne(*this, StoreCompareSet{std::string(key), std::string(expected),
                                                        std::string(desired)}));
  return std::move(result.value);
}

absl::StatusOr<bool> Store::Delete(absl::string_view key) {
  DP_ASSIGN_OR_RETURN(StoreResult result, ExecuteOne(*this, StoreDelete{std::string(key)}));
  return result.found;
}

absl::StatusOr<int64_t> Store::NumKeys() {
  DP_ASSIGN_OR_RETURN(StoreResult result, ExecuteOne(*this, StoreList{"", /*keys=*/false}));
  return result.number;
}

absl::StatusOr<std::vector<std::string>> Store::ListKeys(absl::string_view prefix) {
  DP_ASSIGN_OR_RETURN(StoreResult result, ExecuteOne(*this, StoreList{std::string(prefix)}));
  return std::move(result.keys);
}

absl::StatusOr<int64_t> Store::QueuePush(absl::string_view key, absl::string_view value) {
  DP_ASSIGN_OR_RETURN(StoreResult result,
                      ExecuteOne(*this, StoreQueuePush{std::string(key), std::string(value)}));
  return result.number;
}

absl::StatusOr<std::string> Store::QueuePop(absl::string_view key, absl::Duration timeout) {
  const Clock& clock = Clock::Steady();
  const absl::Time deadline = clock.Now() + timeout;
  while (true) {
    DP_ASSIGN_OR_RETURN(StoreResult head, ExecuteOne(*this, StoreQueuePop{std::string(key)}));
    if (head.found) return std::move(head.value);
    const absl::Duration left = std::max(deadline - clock.Now(), absl::ZeroDuration());
    // Another caller may take the element that ended this wait; then wait again.
    DP_RETURN_IF_ERROR(AwaitOne(*this, StoreQueueLength{std::string(key)}, left).status());
  }
}

absl::StatusOr<int64_t> Store::QueueLength(absl::string_view key) {
  DP_ASSIGN_OR_RETURN(StoreResult result, ExecuteOne(*this, StoreQueueLength{std::string(key)}));
  return result.number;
}

absl::Status Store::Barrier(absl::string_view key, int64_t world_size, absl::Duration timeout) {
  DP_RETURN_IF_ERROR(Add(key, 1).status());
  return AwaitOne(*this, StoreReached{std::string(key), world_size}, timeout).status();
}

absl::StatusOr<Store::Versioned> Store::Watch(absl::string_view key, uint64_t since,
                                              absl::Duration timeout) {
  DP_ASSIGN_OR_RETURN(StoreResult result,
                      AwaitOne(*this, StoreNewer{std::string(key), since}, timeout));
  Versioned versioned{result.version, std::nullopt};
  if (result.number > 0) versioned.value = std::move(result.value);
  return versioned;
}

}  // namespace dp
