#include "worker/engine/collectives/store_arrival.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"

namespace dp::engine {
namespace {

// The longest single wait on the store: a stop is then seen within a second.
constexpr absl::Duration kStoreWait = absl::Milliseconds(250);

std::string KeyOf(absl::string_view prefix, int rank) {
  return absl::StrCat(prefix, "/", rank, "/arrived");
}

// A part of the ranks of a group.
struct Awaited {
  int first = 0;
  std::vector<std::string> keys;
};

absl::StatusOr<std::vector<std::string>> AwaitSome(Store& store, const Awaited& awaited,
                                                   const std::function<bool()>& stopped,
                                                   std::vector<int>* missing) {
  for (;;) {
    auto cards = store.MultiGet(awaited.keys, kStoreWait);
    if (cards.status().code() != absl::StatusCode::kDeadlineExceeded) return cards;
    if (!stopped()) continue;
    std::vector<StoreOperation> gets;
    for (const std::string& key : awaited.keys) gets.push_back(StoreGet{key});
    DP_ASSIGN_OR_RETURN(std::vector<StoreResult> results, store.Execute(gets));
    for (size_t i = 0; i < results.size(); ++i)
      if (!results[i].found) missing->push_back(awaited.first + static_cast<int>(i));
    return absl::AbortedError("stopped");
  }
}

}  // namespace

// The parts bound what one request holds: a world size that is a mistake may be of any size.
absl::StatusOr<std::vector<std::string>> AwaitRanks(Store& store, absl::string_view prefix,
                                                    int rank, int size, absl::string_view card,
                                                    const std::function<bool()>& stopped,
                                                    std::vector<int>* missing) {
  DP_RETURN_IF_ERROR(store.Set(KeyOf(prefix, rank), card));
  std::vector<std::string> all;
  for (int first = 0; first < size; first += kRanksAwaitedAtOnce) {
    Awaited awaited{.first = first};
    for (int r = first; r < size && r - first < kRanksAwaitedAtOnce; ++r)
      awaited.keys.push_back(KeyOf(prefix, r));
    DP_ASSIGN_OR_RETURN(std::vector<std::string> cards,
                        AwaitSome(store, awaited, stopped, missing));
    all.insert(all.end(), std::make_move_iterator(cards.begin()),
               std::make_move_iterator(cards.end()));
  }
  return all;
}

}  // namespace dp::engine
