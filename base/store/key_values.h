#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/store/operation.h"

namespace dp {

// What one store may hold. Keys and values come from programs we do not control, and one job must
// not take the memory of all.
struct KeyValueLimits {
  size_t key_bytes = size_t{8} << 10;      // one key
  size_t value_bytes = size_t{8} << 20;    // one value: an address book of thousands of ranks fits
  size_t keys = size_t{1} << 20;           // keys altogether
  size_t total_bytes = size_t{256} << 20;  // keys and values altogether
};

// The map behind every store of ours, and the meaning of each StoreOperation. Pure: the same
// batches give the same map. Not thread-safe; owned by one store.
class KeyValues {
 public:
  using Map = std::map<std::string, std::string, std::less<>>;

  struct Applied {
    std::vector<StoreResult> results;  // one an operation, in order
    std::vector<std::string> changed;  // keys with another value than before, or none; sorted
  };

  explicit KeyValues(const KeyValueLimits& limits = {}) : limits_(limits) {}

  // Applies the operations in order, as one: later ones see what earlier ones did.
  // Errors: InvalidArgument an add to what is no decimal number, or beyond 64 bits;
  // ResourceExhausted a limit. On an error nothing was applied.
  absl::StatusOr<Applied> Apply(absl::Span<const StoreOperation> operations);

  // Null when absent. Valid until the next Apply.
  const std::string* Find(absl::string_view key) const;
  // Those of `keys` that are absent, in the order asked.
  std::vector<std::string> Missing(absl::Span<const std::string> keys) const;

  const Map& entries() const { return entries_; }
  // Of keys and values altogether.
  size_t bytes() const { return bytes_; }

 private:
  class Batch;

  // Errors: ResourceExhausted a limit on the whole map, as it would be after `changes`.
  absl::Status CheckTotals(const std::map<std::string, std::optional<std::string>>& changes,
                           size_t* bytes_after) const;

  const KeyValueLimits limits_;
  Map entries_;
  size_t bytes_ = 0;
};

}  // namespace dp
