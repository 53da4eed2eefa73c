#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"

namespace dp::worker {

// The ports of the stores of generations that have ranks on this host.
using StorePortOf = std::map<std::pair<JobId, Generation>, uint16_t>;

// A rank's end of a connection to the store of its generation.
struct StoreClient {
  JobId job;
  Generation generation;
  int rank = 0;
  std::string end;  // as SocketEnd writes it

  auto operator<=>(const StoreClient&) const = default;
};

// Finds them by the sockets, environments and descriptors that the system shows of processes: of
// those that descend from this one, wherever the other end is. A connection whose process hides
// them is not found. Not thread-safe; a call takes milliseconds, where many sockets are open on the
// host tens of them, and as long as one of the processes hangs in the kernel with its memory
// locked.
class StoreClientSearch {
 public:
  // Sorted. Looks at processes only when there are other sockets than the last time.
  std::vector<StoreClient> Find(const StorePortOf& stores);

 private:
  // Those connected to one of the ports, by what descriptors of them link to: "socket:[12345]".
  struct Socket {
    std::string end;
    uint16_t port = 0;  // of the store

    bool operator==(const Socket&) const = default;
  };
  using Sockets = std::map<std::string, Socket>;

  static Sockets SocketsTo(const StorePortOf& stores);
  static void AddSockets(const std::string& table, const StorePortOf& stores, Sockets* sockets);
  void Search(const StorePortOf& stores);

  StorePortOf stores_;  // as asked last, and what was found
  Sockets sockets_;
  std::vector<StoreClient> found_;
};

}  // namespace dp::worker
