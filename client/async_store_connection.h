#pragma once

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dp/v1/store.pb.h"
#include "store/relay/store_link.h"

namespace dp::client {

// The calls of dp.v1.Store for callers that must not block: its blocking calls with callbacks.
// `done` is called once, on any thread, possibly before the call returns; it must not block.
// Thread-safe.
class AsyncStoreConnection {
 public:
  template <typename Response>
  using Done = absl::AnyInvocable<void(absl::StatusOr<Response>) &&>;

  // The waits of one relay over one Park stream. Thread-safe.
  class ParkStream {
   public:
    virtual ~ParkStream() = default;
    // `done` gets the wait's answer, or the stream's status when the stream ends. A cancelled call
    // gets Cancelled, before Cancel returns.
    virtual std::shared_ptr<StoreLink::Call> Park(v1::AwaitRequest request,
                                                  Done<v1::AwaitResponse> done) = 0;
    // Whether the stream carries no waits any more: open another.
    virtual bool ended() const = 0;
    // Ends the stream. Returns once it has ended and every wait was answered. Not from a `done`.
    virtual void Close() = 0;
  };

  virtual ~AsyncStoreConnection() = default;

  virtual std::shared_ptr<StoreLink::Call> StartExecute(v1::ExecuteRequest request,
                                                        absl::Duration deadline_in,
                                                        Done<v1::ExecuteResponse> done) = 0;
  virtual std::shared_ptr<StoreLink::Call> StartAwait(v1::AwaitRequest request,
                                                      absl::Duration deadline_in,
                                                      Done<v1::AwaitResponse> done) = 0;
  // Not null. The connection must outlive the stream. Close the stream, unless it has ended.
  virtual std::shared_ptr<ParkStream> OpenPark() = 0;
};

}  // namespace dp::client
