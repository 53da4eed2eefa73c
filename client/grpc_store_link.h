#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "base/id.h"
#include "base/store/relay/store_link.h"
#include "client/async_store_connection.h"

namespace dp::client {

// The link of a relay over gRPC. The connection outlives it. Thread-safe.
class GrpcStoreLink final : public StoreLink {
 public:
  struct Options {
    JobId job;
    Generation generation;
    uint64_t incarnation = 0;  // names the relay to the coordinator; drawn at random, not 0
    std::string worker;        // whose relay it is, for those who ask after blocked calls
    absl::Duration attempt = absl::Seconds(10);  // of one batch
    // A wait is parked for so long, then asked for again: a half-open connection is noticed.
    absl::Duration parking = absl::Seconds(10);
  };

  GrpcStoreLink(AsyncStoreConnection& connection, Options options);

  std::shared_ptr<Call> Execute(const RelayLedger::Batch& batch,
                                Done<RelayLedger::Reply> done) override;
  std::shared_ptr<Call> Await(const std::vector<StoreOperation>& reads, const Waiter& waiter,
                              Done<std::vector<StoreResult>> done) override;

 private:
  AsyncStoreConnection& connection_;
  const Options options_;
};

}  // namespace dp::client
