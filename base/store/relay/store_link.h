#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/store/operation.h"
#include "base/store/relay/relay_ledger.h"

namespace dp {

// A relay's way to the store of its generation, where all its callers are one client. `done` is
// called once, on any thread, maybe before the call returns; it must not block. Thread-safe.
class StoreLink {
 public:
  // A call that is under way. May outlive it.
  class Call {
   public:
    virtual ~Call() = default;
    // Ends the call soon, with Cancelled. Any thread; no effect on one that has ended.
    virtual void Cancel() = 0;
  };
  // For those who ask who waits.
  struct Waiter {
    absl::Duration waited;  // until now
    std::string peer;       // its end of the connection by which it asks; may be empty
  };
  template <typename Answer>
  using Done = absl::AnyInvocable<void(absl::StatusOr<Answer>) &&>;

  virtual ~StoreLink() = default;

  // Applies the batch; again, when it has been applied already, answers as then.
  // Errors: Unavailable, DeadlineExceeded, Cancelled, Unknown it may be tried again;
  // FailedPrecondition and NotFound the generation is over; any other means that the two sides do
  // not understand each other.
  virtual std::shared_ptr<Call> Execute(const RelayLedger::Batch& batch,
                                        Done<RelayLedger::Reply> done) = 0;
  // Answers once each of the reads has been found, as it was then, or with some of them not found:
  // those are to be asked for again. Cancel may answer before it returns.
  // Errors: DeadlineExceeded not now, ask again; ResourceExhausted there is no room for it, ask
  // again later; InvalidArgument; others as Execute.
  virtual std::shared_ptr<Call> Await(const std::vector<StoreOperation>& reads,
                                      const Waiter& waiter,
                                      Done<std::vector<StoreResult>> done) = 0;
};

}  // namespace dp
