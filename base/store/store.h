#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/store/operation.h"

namespace dp {

// Keys and values shared by the ranks of one generation. The two virtual methods are the whole
// contract; the verbs below them are thin wrappers. Implementations are thread-safe.
class Store {
 public:
  virtual ~Store() = default;

  // Applies the operations in order, as one; one result each.
  // Errors: InvalidArgument an add to what is no decimal number; ResourceExhausted a limit;
  // FailedPrecondition the generation is over; Unavailable. On an error nothing was applied.
  virtual absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) = 0;

  // Blocks until all keys are present; returns their values in order.
  // Errors: DeadlineExceeded names the missing keys; others as Execute.
  virtual absl::StatusOr<std::vector<std::string>> Await(absl::Span<const std::string> keys,
                                                         absl::Duration timeout) = 0;

  absl::Status Set(absl::string_view key, absl::string_view value);
  // Waits for the key.
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout);
  // Returns the sum.
  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t amount);
  // Returns the value that is there afterwards.
  absl::StatusOr<std::string> CompareSet(absl::string_view key, absl::string_view expected,
                                         absl::string_view desired);
  // Returns whether the key was there.
  absl::StatusOr<bool> Delete(absl::string_view key);
};

}  // namespace dp
