#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "store/operation.h"
#include "store/relay/relay_ledger.h"

namespace dp {

// A relay's connection to the store of its generation, where all its callers are one client. `done`
// is called once, on any thread, possibly before the call returns; it must not block. Thread-safe.
class StoreLink {
 public:
  // The handle of a call in flight; may outlive the call.
  class Call {
   public:
    virtual ~Call() = default;
    // Ends the call soon, with Cancelled. Any thread; a no-op on a call that has ended.
    virtual void Cancel() = 0;
  };
  // Shown to whoever asks who waits.
  struct Waiter {
    absl::Duration waited;  // so far
    std::string peer;       // the caller's end of its connection; may be empty
  };
  template <typename Answer>
  using Done = absl::AnyInvocable<void(absl::StatusOr<Answer>) &&>;

  virtual ~StoreLink() = default;

  // Applies the batch. A batch that was applied already gets the same answer again.
  // Errors: Unavailable, DeadlineExceeded, Cancelled, Unknown: retry; FailedPrecondition, NotFound:
  // the generation is over; any other: the two sides do not understand each other.
  virtual std::shared_ptr<Call> Execute(const RelayLedger::Batch& batch,
                                        Done<RelayLedger::Reply> done) = 0;
  // Answers once each of the reads has been found, with its result of that time. May answer earlier
  // with some reads not found, which the relay asks for again. Cancel may answer before it returns.
  // Errors: DeadlineExceeded nothing yet, ask again; ResourceExhausted no room for the wait, ask
  // again later; InvalidArgument; others as Execute.
  virtual std::shared_ptr<Call> Await(const std::vector<StoreOperation>& reads,
                                      const Waiter& waiter,
                                      Done<std::vector<StoreResult>> done) = 0;
};

}  // namespace dp
