#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/id.h"
#include "base/mutex.h"
#include "client/async_store_connection.h"
#include "store/relay/store_link.h"

namespace dp::client {

// A relay's link over gRPC: a call for each batch, and one stream for all waits. Coordinators of
// older releases have no such stream; there each wait is a call that lasts as long as a parking.
// The connection must outlive the link. Thread-safe.
class GrpcStoreLink final : public StoreLink {
 public:
  struct Options {
    JobId job;
    Generation generation;
    uint64_t incarnation = 0;  // identifies the relay to the coordinator; drawn at random, not 0
    std::string worker;        // the relay's worker, shown to whoever asks about blocked calls
    // The rank of this worker that has this end of a connection to the relay; nothing if it is
    // unknown. Called on any thread, and quick. Null: never known.
    std::function<std::optional<int>(const std::string& peer)> rank_at = {};
    bool for_other_hosts = false;  // ranks of other hosts use it; the coordinator may know them
    absl::Duration attempt = absl::Seconds(10);  // timeout of one batch
    // Timeout of a wait whose rank may become known later, and of every wait at an older
    // coordinator.
    absl::Duration parking = absl::Seconds(10);
  };

  GrpcStoreLink(AsyncStoreConnection& connection, Options options);
  // Closes the stream.
  ~GrpcStoreLink() override;

  std::shared_ptr<Call> Execute(const RelayLedger::Batch& batch,
                                Done<RelayLedger::Reply> done) override;
  std::shared_ptr<Call> Await(const std::vector<StoreOperation>& reads, const Waiter& waiter,
                              Done<std::vector<StoreResult>> done) override;

 private:
  using AwaitDone = AsyncStoreConnection::Done<v1::AwaitResponse>;
  using ParkStream = AsyncStoreConnection::ParkStream;

  v1::AwaitRequest ToRequest(const std::vector<StoreOperation>& reads, const Waiter& waiter) const;
  // Fills in who waits, as far as that is known here.
  void Name(const std::string& peer, v1::AwaitRequest& request) const;
  // Whether the rank may become known later.
  bool MoreMayBeKnown(const v1::AwaitRequest& request, const Waiter& waiter) const;
  // The stream of the waits; null while the coordinator is known to have none.
  std::shared_ptr<ParkStream> Stream() DP_EXCLUDES(mu_);
  std::shared_ptr<Call> Park(ParkStream& stream, v1::AwaitRequest request, AwaitDone done);
  std::shared_ptr<Call> AwaitAlone(v1::AwaitRequest request, AwaitDone done);

  AsyncStoreConnection& connection_;
  const Options options_;
  // Whether the coordinator is of an older release, as far as known. Shared with the calls in
  // flight: a call of an ended stream may set it after this object is gone.
  const std::shared_ptr<std::atomic<bool>> older_ = std::make_shared<std::atomic<bool>>(false);

  Mutex mu_;
  std::shared_ptr<ParkStream> stream_ DP_GUARDED_BY(mu_);  // null: none yet
};

}  // namespace dp::client
