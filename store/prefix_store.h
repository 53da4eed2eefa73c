#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "store/store.h"

namespace dp {

// A namespace within another store: puts `prefix` before every key. As thread-safe as that store,
// which must outlive it. Errors name keys with their prefix.
class PrefixStore : public Store {
 public:
  PrefixStore(absl::string_view prefix, Store& store) : prefix_(prefix), store_(store) {}

  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override;
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override;

 private:
  const std::string prefix_;
  Store& store_;
};

}  // namespace dp
