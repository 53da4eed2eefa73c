#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"

namespace dp::worker {

// The store's port, for each generation with ranks on this host.
using StorePortOf = std::map<std::pair<JobId, Generation>, uint16_t>;

// A rank's end of a connection to the store of its generation.
struct StoreClient {
  JobId job;
  Generation generation;
  int rank = 0;
  std::string end;  // as SocketEnd writes it

  auto operator<=>(const StoreClient&) const = default;
};

// Finds the ranks' connections by what /proc shows of sockets, and of the environments and
// descriptors of this process's descendants. The other end may be on any host. Connections of
// processes that hide these are not found. Not thread-safe. A call takes milliseconds, tens of them
// if many sockets are open on the host. It blocks while one of the processes hangs in the kernel
// with its memory locked.
class StoreClientSearch {
 public:
  // Sorted. Looks at processes only if sockets or `stores` have changed since the last call.
  std::vector<StoreClient> Find(const StorePortOf& stores);

 private:
  // The sockets connected to one of the ports, by the link of their descriptors: "socket:[12345]".
  struct Socket {
    std::string end;
    uint16_t port = 0;  // of the store

    bool operator==(const Socket&) const = default;
  };
  using Sockets = std::map<std::string, Socket>;

  static Sockets SocketsTo(const StorePortOf& stores);
  static void AddSockets(const std::string& table, const StorePortOf& stores, Sockets* sockets);
  void Search(const StorePortOf& stores);

  StorePortOf stores_;  // of the last call, as are the next two
  Sockets sockets_;
  std::vector<StoreClient> found_;
};

}  // namespace dp::worker
