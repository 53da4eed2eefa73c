#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/store.h"

namespace dp::engine {

// Lets ranks find each other through a store. Each sets "<prefix>/<rank>/arrived" to its own card,
// and gets the cards of all, in rank order. Blocks until all are there or `stopped`, called several
// times a second, answers true. In the latter case the result is Aborted and `missing` gets the
// ranks that did not arrive. A rank waits for kRanksAwaitedAtOnce ranks at a time, the lowest
// first; `missing` has none above those. Errors: the store's.
inline constexpr int kRanksAwaitedAtOnce = 16384;
absl::StatusOr<std::vector<std::string>> AwaitRanks(Store& store, absl::string_view prefix,
                                                    int rank, int size, absl::string_view card,
                                                    const std::function<bool()>& stopped,
                                                    std::vector<int>* missing);

}  // namespace dp::engine
