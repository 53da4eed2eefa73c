#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/store/relay/store_link.h"
#include "server/shell/driver.h"

namespace dp::server {

// The link of a relay that lives in the coordinator itself. The driver outlives it and its calls.
// Thread-safe.
class DriverStoreLink final : public StoreLink {
 public:
  struct Options {
    JobId job;
    Generation generation;
    uint64_t incarnation = 0;  // names the relay to the machine; drawn at random, not 0
    std::string who;           // as one who asks after blocked calls is told
  };

  DriverStoreLink(Driver& driver, Options options);

  std::shared_ptr<Call> Execute(const RelayLedger::Batch& batch,
                                Done<RelayLedger::Reply> done) override;
  std::shared_ptr<Call> Await(const std::vector<StoreOperation>& reads, const Waiter& waiter,
                              Done<std::vector<StoreResult>> done) override;

 private:
  Driver& driver_;
  const Options options_;
};

}  // namespace dp::server
