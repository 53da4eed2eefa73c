#pragma once

#include <sys/socket.h>

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "store/wire/socket.h"

namespace dp::wire {

// The hosts whose connections a store serves. TCPStore's protocol has no credentials, so its
// address is all that a caller on another host shows. All addresses of this host count as one host.
// Not thread-safe; belongs to the thread that accepts connections.
class AllowedHosts {
 public:
  // Names without an address are resolved again after kPauseMin, then after twice as long, up to
  // kPauseMax. A resolver that does not answer blocks the thread for seconds each time.
  static constexpr absl::Duration kPauseMin = absl::Seconds(1);
  static constexpr absl::Duration kPauseMax = absl::Seconds(10);

  // Finds the addresses of a host.
  using Resolver = std::function<absl::StatusOr<std::vector<sockaddr_storage>>(const std::string&)>;

  // Each host is a numeric address or a name.
  explicit AllowedHosts(std::vector<std::string> hosts, const Clock& clock = Clock::Steady(),
                        Resolver resolver = AddressesOf)
      : clock_(&clock), resolver_(std::move(resolver)), unresolved_(std::move(hosts)) {}

  // OK if the other end of the connected socket is on one of the hosts. Resolves names when it
  // first needs them, which may take seconds.
  // Errors: PermissionDenied names the address, and the names without one; others of the system.
  absl::Status Check(int socket);

 private:
  // Resolves names if it is time.
  void Resolve();
  bool Has(const sockaddr_storage& peer) const;

  const Clock* clock_;
  Resolver resolver_;
  std::vector<std::string> unresolved_;
  std::string reasons_;  // why these have no address
  absl::Duration pause_ = kPauseMin;
  absl::Time resolve_at_ = absl::InfinitePast();
  std::set<std::string> addresses_;  // as SocketHost writes them
  bool this_host_ = false;           // one of them is this host's
};

}  // namespace dp::wire
