#include "worker/engine/collectives/store_arrival.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"

namespace dp::engine {
namespace {

// The longest single wait on the store: a stop is then seen within a second.
constexpr absl::Duration kStoreWait = absl::Milliseconds(250);

}  // namespace

absl::StatusOr<std::vector<std::string>> AwaitRanks(Store& store, absl::string_view prefix,
                                                    int rank, int size, absl::string_view card,
                                                    const std::function<bool()>& stopped,
                                                    std::vector<int>* missing) {
  std::vector<std::string> keys;
  std::vector<StoreOperation> gets;
  for (int r = 0; r < size; ++r) {
    keys.push_back(absl::StrCat(prefix, "/", r, "/arrived"));
    gets.push_back(StoreGet{keys.back()});
  }
  DP_RETURN_IF_ERROR(store.Set(keys[rank], card));
  for (;;) {
    auto cards = store.MultiGet(keys, kStoreWait);
    if (cards.status().code() != absl::StatusCode::kDeadlineExceeded) return cards;
    if (!stopped()) continue;
    DP_ASSIGN_OR_RETURN(std::vector<StoreResult> results, store.Execute(gets));
    for (int r = 0; r < size; ++r)
      if (!results[r].found) missing->push_back(r);
    return absl::AbortedError("stopped");
  }
}

}  // namespace dp::engine
