#pragma once

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/store/relay/store_link.h"
#include "dp/v1/store.pb.h"

namespace dp::client {

// The calls of dp.v1.Store for one who must not block: StoreConnection with callbacks. `done` is
// called once, on any thread, maybe before the call returns; it must not block. Thread-safe.
class AsyncStoreConnection {
 public:
  template <typename Response>
  using Done = absl::AnyInvocable<void(absl::StatusOr<Response>) &&>;

  // The waits of one relay over one stream of Park. Thread-safe.
  class ParkStream {
   public:
    virtual ~ParkStream() = default;
    // `done` gets the wait's answer or, when the stream ends, what it has ended with; Cancelled,
    // before Cancel returns, when the call is cancelled.
    virtual std::shared_ptr<StoreLink::Call> Park(v1::AwaitRequest request,
                                                  Done<v1::AwaitResponse> done) = 0;
    // It carries no waits any more: open another.
    virtual bool ended() const = 0;
    // Ends it, and returns when it has ended and every wait been told so. Not from a `done`.
    virtual void Close() = 0;
  };

  virtual ~AsyncStoreConnection() = default;

  virtual std::shared_ptr<StoreLink::Call> StartExecute(v1::ExecuteRequest request,
                                                        absl::Duration deadline_in,
                                                        Done<v1::ExecuteResponse> done) = 0;
  virtual std::shared_ptr<StoreLink::Call> StartAwait(v1::AwaitRequest request,
                                                      absl::Duration deadline_in,
                                                      Done<v1::AwaitResponse> done) = 0;
  // Not null. The connection outlives it; it is to be closed, unless it has ended.
  virtual std::shared_ptr<ParkStream> OpenPark() = 0;
};

}  // namespace dp::client
