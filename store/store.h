#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "store/operation.h"

namespace dp {

// Keys, values and queues shared by the ranks of one generation. The two virtual methods are the
// whole contract; the verbs below them are thin wrappers. docs/store.md defines each verb.
// Implementations are thread-safe.
class Store {
 public:
  // A key at a version; no value: the key is absent.
  struct Versioned {
    uint64_t version = 0;
    std::optional<std::string> value;
  };
  struct Pair {
    std::string key, value;
  };

  virtual ~Store() = default;

  // Applies the operations in order and atomically; one result each.
  // Errors: InvalidArgument an add to a value that is no decimal number; ResourceExhausted a limit;
  // FailedPrecondition the generation is over; Unavailable; Unimplemented no TCPStore verb. On an
  // error nothing was applied.
  virtual absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) = 0;

  // Blocks until all `reads` are found at the same moment; returns their results of that moment.
  // Errors: InvalidArgument an operation that is no read, or a list; DeadlineExceeded names what is
  // missing; others as Execute.
  virtual absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                         absl::Duration timeout) = 0;

  absl::Status Set(absl::string_view key, absl::string_view value);
  absl::Status MultiSet(absl::Span<const Pair> pairs);
  absl::Status Append(absl::string_view key, absl::string_view value);
  // Waits for the key.
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout);
  // Waits for all keys; returns their values in the order asked.
  absl::StatusOr<std::vector<std::string>> MultiGet(absl::Span<const std::string> keys,
                                                    absl::Duration timeout);
  // Blocks until each of the keys has a value or a queue that is not empty.
  absl::Status Wait(absl::Span<const std::string> keys, absl::Duration timeout);
  // Whether Wait would return at once.
  absl::StatusOr<bool> Check(absl::Span<const std::string> keys);
  // Returns the sum.
  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t amount);
  // Returns the value afterwards; `expected` if the key is absent and was not set.
  absl::StatusOr<std::string> CompareSet(absl::string_view key, absl::string_view expected,
                                         absl::string_view desired);
  // Returns whether the key was there.
  absl::StatusOr<bool> Delete(absl::string_view key);
  // Keys with values; queues do not count.
  absl::StatusOr<int64_t> NumKeys();
  absl::StatusOr<std::vector<std::string>> ListKeys(absl::string_view prefix = "");

  // Returns the length afterwards.
  absl::StatusOr<int64_t> QueuePush(absl::string_view key, absl::string_view value);
  // Waits for an element and takes it. Each element goes to one caller.
  absl::StatusOr<std::string> QueuePop(absl::string_view key, absl::Duration timeout);
  absl::StatusOr<int64_t> QueueLength(absl::string_view key);

  // Counts this caller under `key`, then blocks until `world_size` callers have come. A key serves
  // once: it is not reset, and after the barrier everybody passes.
  absl::Status Barrier(absl::string_view key, int64_t world_size, absl::Duration timeout);

  // Blocks until the key's version is above `since`; 0 is older than every change. Errors: also
  // Unimplemented, at once, with TcpStore: its protocol has no versions.
  absl::StatusOr<Versioned> Watch(absl::string_view key, uint64_t since, absl::Duration timeout);
};

}  // namespace dp
