#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/bounded_queue.h"
#include "base/file_descriptor.h"
#include "base/id.h"
#include "server/callers/store_callers.h"
#include "server/driver/driver.h"
#include "server/tcpstore/direct_ports.h"
#include "store/key_values.h"
#include "store/wire/fields.h"
#include "store/wire/message_memory.h"

namespace dp::server {

// Serves the TCPStores of jobs with `store: direct`. Each store listens on its generation's port,
// from its placement until its last rank has gone (docs/tcpstore.md). One thread follows the list
// of jobs. A store serves only the hosts of its generation's workers. DirectPorts keeps a port from
// its choice on. If another program has the port all the same, as after a restart of the
// coordinator, the thread retries as long as the generation exists. The driver, the ports, the
// callers and the memory outlive this object.
class DirectStores {
 public:
  // `limits` are those of the jobs' stores; `memory` bounds what their clients send.
  DirectStores(Driver& driver, DirectPorts& ports, StoreCallers& callers,
               const KeyValueLimits& limits, wire::MessageMemory& memory,
               absl::Duration try_again = absl::Seconds(1));
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

  // All below run on the thread.
  void Run();
  // Requests the next list that differs from `known`; the list goes to the inbox. False if the
  // driver has no room for the question.
  bool AskForOtherThan(std::vector<Wanted> known);
  void Serve(News news);
  // `hosts`: the addresses of the workers with the generation's ranks.
  std::unique_ptr<Endpoint> Open(const Wanted& wanted, const std::vector<std::string>& hosts);
  // Listens on the socket, or on a new one if the socket is not valid.
  void Listen(const Wanted& wanted, FileDescriptor listener, Endpoint& endpoint);
  bool some_wait() const;

  Driver& driver_;
  DirectPorts& ports_;  // used on the driver's thread, as callers_
  StoreCallers& callers_;
  const wire::Limits limits_;
  wire::MessageMemory& memory_;
  const absl::Duration try_again_;
  uint64_t random_state_;
  const Waiters::Ticket ticket_;
  const std::shared_ptr<Outlook> outlook_;
  std::map<Wanted, std::unique_ptr<Endpoint>> endpoints_;

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace dp::server
