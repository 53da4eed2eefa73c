#include "store/prefix_store.h"

#include <variant>

#include "base/overloaded.h"

namespace dp {
namespace {

// Puts the prefix before each key of the operation.
void AddPrefix(const std::string& prefix, StoreOperation& operation) {
  std::visit(Overloaded{[&](StoreCheck& check) {
                          for (std::string& key : check.keys) key.insert(0, prefix);
                        },
                        [&](StoreList& list) { list.prefix.insert(0, prefix); },
                        [&](auto& verb) { verb.key.insert(0, prefix); }},
             operation);
}

std::vector<StoreOperation> Prefixed(const std::string& prefix,
                                     absl::Span<const StoreOperation> operations) {
  std::vector<StoreOperation> prefixed(operations.begin(), operations.end());
  for (StoreOperation& operation : prefixed) AddPrefix(prefix, operation);
  return prefixed;
}

// Only lists answer keys, and all of these have the prefix.
absl::StatusOr<std::vector<StoreResult>> Stripped(
    const std::string& prefix, absl::StatusOr<std::vector<StoreResult>> results) {
  if (!results.ok()) return results;
  for (StoreResult& result : *results)
    for (std::string& key : result.keys) key.erase(0, prefix.size());
  return results;
}

}  // namespace

absl::StatusOr<std::vector<StoreResult>> PrefixStore::Execute(
    absl::Span<const StoreOperation> operations) {
  return Stripped(prefix_, store_.Execute(Prefixed(prefix_, operations)));
}

absl::StatusOr<std::vector<StoreResult>> PrefixStore::Await(absl::Span<const StoreOperation> reads,
                                                            absl::Duration timeout) {
  return Stripped(prefix_, store_.Await(Prefixed(prefix_, reads), timeout));
}

}  // namespace dp
