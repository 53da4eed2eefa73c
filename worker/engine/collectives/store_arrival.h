#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/store/store.h"

namespace dp::engine {

// How ranks find each other through a store: each sets "<prefix>/<rank>/arrived" to a card of its
// own, and gets everybody's, in rank order. Blocks until all are there or `stopped` says so, which
// it asks several times a second; `missing` then gets the ranks that did not arrive, and the answer
// is Aborted. Errors: the store's.
absl::StatusOr<std::vector<std::string>> AwaitRanks(Store& store, absl::string_view prefix,
                                                    int rank, int size, absl::string_view card,
                                                    const std::function<bool()>& stopped,
                                                    std::vector<int>* missing);

}  // namespace dp::engine
