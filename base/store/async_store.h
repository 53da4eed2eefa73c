#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/id.h"
#include "base/store/operation.h"

namespace dp {

// A store for one who must not block: what store.h is, with the answers given to callbacks. The
// TCPStore server stands on one. Thread-safe.
//
// Calls of one thread take effect in the order in which they were made. Every `done` is called
// exactly once, on any thread, also before the call returns or after the caller has lost interest;
// it must not block, and must not call the store back before it has returned.
class AsyncStore {
 public:
  using Results = absl::StatusOr<std::vector<StoreResult>>;
  using Done = absl::AnyInvocable<void(Results) &&>;
  using Ticket = Id<struct AwaitTag>;

  virtual ~AsyncStore() = default;

  // Applies the operations in order, as one; one result each. Errors: as Store::Execute.
  virtual void Execute(std::vector<StoreOperation> operations, Done done) = 0;

  // Answers once each of the reads has found something; what was found once counts, even when it
  // has gone since. An element that enters a queue answers one of those who wait for it, the one
  // that has waited longest: it is going to pop it.
  // `peer`, the caller's end of its connection as text, is for who asks why it lasts; it may be
  // empty. Errors: Cancelled by Cancel; InvalidArgument what AwaitedKeys says; others as Execute.
  virtual Ticket Await(std::vector<StoreOperation> reads, Done done, const std::string& peer) = 0;
  Ticket Await(std::vector<StoreOperation> reads, Done done) {
    return Await(std::move(reads), std::move(done), "");
  }

  // Ends a wait, soon. No effect on one that has been answered.
  virtual void Cancel(Ticket ticket) = 0;

  // Around the calls of a caller that makes many of them in a turn of its loop: they may be kept
  // back until the end of the turn, and then travel together.
  virtual void BeginTurn() {}
  virtual void EndTurn() {}
};

}  // namespace dp
