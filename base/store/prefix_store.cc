#include "base/store/prefix_store.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/overloaded.h"

namespace dp {
namespace {

std::vector<std::string> Prefixed(absl::string_view prefix, absl::Span<const std::string> keys) {
  std::vector<std::string> prefixed;
  for (const std::string& key : keys) prefixed.push_back(absl::StrCat(prefix, key));
  return prefixed;
}

}  // namespace

absl::StatusOr<std::vector<StoreResult>> PrefixStore::Execute(
    absl::Span<const StoreOperation> operations) {
  std::vector<StoreOperation> prefixed(operations.begin(), operations.end());
  for (StoreOperation& operation : prefixed)
    std::visit(Overloaded{[this](StoreCheck& check) { check.keys = Prefixed(prefix_, check.keys); },
                          [this](auto& verb) { verb.key.insert(0, prefix_); }},
               operation);
  return store_.Execute(prefixed);
}

absl::StatusOr<std::vector<std::string>> PrefixStore::Await(absl::Span<const std::string> keys,
                                                            absl::Duration timeout) {
  return store_.Await(Prefixed(prefix_, keys), timeout);
}

}  // namespace dp
