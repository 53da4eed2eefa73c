#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
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

// A socket that is connected to the port of a store.
struct StoreSocket {
  std::string end;    // this end, as SocketEnd writes it; empty: of an unknown family
  uint16_t port = 0;  // of the store

  bool operator==(const StoreSocket&) const = default;
};
// By the links of their descriptors: "socket:[12345]".
using StoreSockets = std::map<std::string, StoreSocket>;

// Adds the socket of a line of /proc/net/tcp or tcp6, if it is connected to one of the ports. Pure.
void AddStoreSocket(absl::string_view line, const StorePortOf& stores, StoreSockets* sockets);

// The rank that a process belongs to, by the environment that it was started with. `end` stays
// empty. A rank can give its processes any environment, so the answer is a claim. Pure.
std::optional<StoreClient> RankInEnvironment(absl::string_view environment);

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
  static StoreSockets SocketsTo(const StorePortOf& stores);
  void Search(const StorePortOf& stores);

  StorePortOf stores_;  // of the last call, as are the next two
  StoreSockets sockets_;
  std::vector<StoreClient> found_;
};

}  // namespace dp::worker
