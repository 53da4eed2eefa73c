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
#include "base/store/relay/store_link.h"
#include "client/async_store_connection.h"

namespace dp::client {

// The link of a relay over gRPC: a call for each batch, and one stream for all that wait. A
// coordinator of an older release knows no such stream: waits are calls of their own there, each of
// a parking's time. The connection outlives it. Thread-safe.
class GrpcStoreLink final : public StoreLink {
 public:
  struct Options {
    JobId job;
    Generation generation;
    uint64_t incarnation = 0;  // names the relay to the coordinator; drawn at random, not 0
    std::string worker;        // whose relay it is, for those who ask after blocked calls
    // The rank of this worker that has this end of a connection to the relay; nothing where it is
    // not known. Called on any thread, and quick. Null: never known.
    std::function<std::optional<int>(const std::string& peer)> rank_at = {};
    bool for_other_hosts = false;  // their ranks use it, too; the coordinator may know who they are
    absl::Duration attempt = absl::Seconds(10);  // of one batch
    // Of a wait of which more may be known later.
    absl::Duration parking = absl::Seconds(10);
  };

  GrpcStoreLink(AsyncStoreConnection& connection, Options options);
  // Ends the stream.
  ~GrpcStoreLink() override;

  std::shared_ptr<Call> Execute(const RelayLedger::Batch& batch,
                                Done<RelayLedger::Reply> done) override;
  std::shared_ptr<Call> Await(const std::vector<StoreOperation>& reads, const Waiter& waiter,
                              Done<std::vector<StoreResult>> done) override;

 private:
  using AwaitDone = AsyncStoreConnection::Done<v1::AwaitResponse>;
  using ParkStream = AsyncStoreConnection::ParkStream;

  v1::AwaitRequest ToRequest(const std::vector<StoreOperation>& reads, const Waiter& waiter) const;
  // Says who waits, as far as that is known here.
  void Name(const std::string& peer, v1::AwaitRequest& request) const;
  // It may be, later.
  bool MoreMayBeKnown(const v1::AwaitRequest& request, const Waiter& waiter) const;
  // The one that carries waits; null while the coordinator knows of none.
  std::shared_ptr<ParkStream> Stream() DP_EXCLUDES(mu_);
  std::shared_ptr<Call> Park(ParkStream& stream, v1::AwaitRequest request, AwaitDone done);
  std::shared_ptr<Call> AwaitAlone(v1::AwaitRequest request, AwaitDone done);

  AsyncStoreConnection& connection_;
  const Options options_;
  // Whether the coordinator is of an older release, as far as is known. Shared with the calls under
  // way: those of a stream that has ended may be told so later than this ends.
  const std::shared_ptr<std::atomic<bool>> older_ = std::make_shared<std::atomic<bool>>(false);

  Mutex mu_;
  std::shared_ptr<ParkStream> stream_ DP_GUARDED_BY(mu_);  // null: none yet
};

}  // namespace dp::client
