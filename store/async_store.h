#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/id.h"
#include "store/operation.h"

namespace dp {

// The contract of store.h for callers that must not block: results go to callbacks. The TCPStore
// server uses one. Thread-safe.
//
// Calls of one thread take effect in the order in which they were made. Every `done` is called
// exactly once, on any thread, possibly before the call returns or after the caller has lost
// interest. `done` must neither block nor call the store.
class AsyncStore {
 public:
  using Results = absl::StatusOr<std::vector<StoreResult>>;
  using Done = absl::AnyInvocable<void(Results) &&>;
  using Ticket = Id<struct AwaitTag>;

  virtual ~AsyncStore() = default;

  // Applies the operations in order and atomically; one result each. Errors: as Store::Execute.
  virtual void Execute(std::vector<StoreOperation> operations, Done done) = 0;

  // Answers once each of the reads has found something. A result that was found counts even if it
  // has gone since. A new element of a queue answers only the read that has waited longest, because
  // its caller will pop the element.
  // `peer`, the caller's end of its connection as text, is shown to whoever asks why the wait
  // lasts; it may be empty. Errors: Cancelled by Cancel; InvalidArgument as AwaitedKeys; others as
  // Execute.
  virtual Ticket Await(std::vector<StoreOperation> reads, Done done, const std::string& peer) = 0;
  Ticket Await(std::vector<StoreOperation> reads, Done done) {
    return Await(std::move(reads), std::move(done), "");
  }

  // Ends a wait, soon. A no-op if the wait was answered.
  virtual void Cancel(Ticket ticket) = 0;

  // Enclose the calls that a caller makes in one turn of its loop. The store may hold them back
  // until the end of the turn, and then send them together.
  virtual void BeginTurn() {}
  virtual void EndTurn() {}
};

}  // namespace dp
