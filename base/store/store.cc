#include "base/store/store.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp {
namespace {

absl::StatusOr<StoreResult> ExecuteOne(Store& store, StoreOperation operation) {
  DP_ASSIGN_OR_RETURN(std::vector<StoreResult> results, store.Execute({std::move(operation)}));
  if (results.size() != 1)
    return absl::InternalError(
        absl::StrCat("store answered ", results.size(), " results to one operation"));
  return std::move(results[0]);
}

}  // namespace

absl::Status Store::Set(absl::string_view key, absl::string_view value) {
  return ExecuteOne(*this, StoreSet{std::string(key), std::string(value)}).status();
}

absl::StatusOr<std::string> Store::Get(absl::string_view key, absl::Duration timeout) {
  DP_ASSIGN_OR_RETURN(std::vector<std::string> values, Await({std::string(key)}, timeout));
  if (values.size() != 1)
    return absl::InternalError(
        absl::StrCat("store answered ", values.size(), " values to one key"));
  return std::move(values[0]);
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

}  // namespace dp
