#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/bounded_queue.h"
#include "base/file_descriptor.h"
#include "base/id.h"
#include "base/store/key_values.h"
#include "base/store/wire/fields.h"
#include "base/store/wire/message_memory.h"
#include "server/shell/direct_ports.h"
#include "server/shell/driver.h"
#include "server/shell/store_callers.h"

namespace dp::server {

// The TCPStore endpoints that the coordinator serves itself, for jobs with `store: direct`: each on
// its generation's port, from its placement until its last rank has gone (docs/tcpstore.md). Has
// one thread, which follows the list of jobs. A port is kept from its choice on (DirectPorts); one
// that another program has all the same, as after a restart of the coordinator, is tried again for
// as long as the generation lives. The driver, the ports, the callers and the memory outlive it.
class DirectStores {
 public:
  // `limits` are those of the jobs' stores; `memory` is for what their clients send.
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

  // All below: the thread.
  void Run();
  // Has the next list that differs from this one sent to the inbox; false when the driver has no
  // room for the question.
  bool AskForOtherThan(std::vector<Wanted> known);
  void Serve(News news);
  std::unique_ptr<Endpoint> Open(const Wanted& wanted);
  // On the socket, or where it is not valid on one that is opened now.
  void Listen(const Wanted& wanted, FileDescriptor listener, Endpoint& endpoint);
  bool some_wait() const;

  Driver& driver_;
  DirectPorts& ports_;  // of the driver's thread, as the next
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
