#pragma once

#include <sys/socket.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace dp::wire {

// The hosts whose connections a store serves. TCPStore's protocol has no credentials, so its
// address is all that a caller on another host shows. All addresses of this host count as one host.
// Not thread-safe; belongs to the thread that accepts connections.
class AllowedHosts {
 public:
  // Each host is a numeric address or a name.
  explicit AllowedHosts(std::vector<std::string> hosts) : unresolved_(std::move(hosts)) {}

  // OK if the other end of the connected socket is on one of the hosts. Resolves names when it
  // first needs them, which may take seconds; those without an address again the next time.
  // Errors: PermissionDenied names the address, and the names without one; others of the system.
  absl::Status Check(int socket);

 private:
  // Returns why some names have no address; empty if all have one.
  std::string Resolve();
  bool Has(const sockaddr_storage& peer) const;

  std::vector<std::string> unresolved_;
  std::set<std::string> addresses_;  // as SocketHost writes them
  bool this_host_ = false;           // one of them is this host's
};

}  // namespace dp::wire
