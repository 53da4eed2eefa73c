#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/id.h"
#include "server/callers/store_callers.h"
#include "server/driver/driver.h"
#include "store/relay/store_link.h"

namespace dp::server {

// The store link of a relay inside the coordinator. The driver and the callers outlive the link and
// its calls. Thread-safe.
class DriverStoreLink final : public StoreLink {
 public:
  struct Options {
    JobId job;
    Generation generation;
    uint64_t incarnation = 0;  // names the relay to the machine; random, not 0
  };

  DriverStoreLink(Driver& driver, StoreCallers& callers, Options options);

  std::shared_ptr<Call> Execute(const RelayLedger::Batch& batch,
                                Done<RelayLedger::Reply> done) override;
  std::shared_ptr<Call> Await(const std::vector<StoreOperation>& reads, const Waiter& waiter,
                              Done<std::vector<StoreResult>> done) override;

 private:
  Driver& driver_;
  StoreCallers& callers_;  // used on the driver's thread
  const Options options_;
};

}  // namespace dp::server
