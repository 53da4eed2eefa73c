#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bounded_queue.h"
#include "base/id.h"
#include "base/store/key_values.h"
#include "base/store/wire/fields.h"
#include "server/shell/driver.h"
#include "server/shell/store_callers.h"

namespace dp::server {

// The TCPStore endpoints that the coordinator serves itself, for jobs with `store: direct`: each on
// its generation's port, from its placement until its last rank has gone (docs/tcpstore.md). Has
// one thread, which follows the list of jobs. Jobs are placed only on ports that are free then
// (CanServe); should another program take one in the moment between, that is logged, and the ranks
// find a stranger there. The driver and the callers outlive it.
class DirectStores {
 public:
  // Whether the job's store is another's to serve, or could be served here, on `host`, now.
  static bool CanServe(const core::Job& job, const std::string& host, int port);

  // Serves on `host`, a numeric address or a name; empty is every address. `limits` are those of
  // the jobs' stores.
  DirectStores(Driver& driver, StoreCallers& callers, std::string host,
               const KeyValueLimits& limits);
  ~DirectStores();
  DirectStores(const DirectStores&) = delete;
  DirectStores& operator=(const DirectStores&) = delete;

 private:
  struct Wanted {
    JobId job;
    Generation generation;
    int port = 0;

    auto operator<=>(const Wanted&) const = default;
  };
  struct Endpoint;
  struct News;
  struct Outlook;

  // All below: the thread.
  void Run();
  // Has the next list that differs from this one sent to the inbox; false when the driver has no
  // room for the question.
  bool AskForOtherThan(std::vector<Wanted> known);
  void Serve(const std::vector<Wanted>& wanted);
  std::unique_ptr<Endpoint> Open(const Wanted& wanted);

  Driver& driver_;
  StoreCallers& callers_;  // of the driver's thread
  const std::string host_;
  const wire::Limits limits_;
  uint64_t random_state_;
  const Waiters::Ticket ticket_;
  const std::shared_ptr<Outlook> outlook_;
  std::map<Wanted, std::unique_ptr<Endpoint>> endpoints_;

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace dp::server
