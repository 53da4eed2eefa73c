#include "store/wire/allowed_hosts.h"

#include "absl/strings/str_cat.h"
#include "base/socket_end.h"
#include "base/status.h"
#include "store/wire/socket.h"

namespace dp::wire {

absl::Status AllowedHosts::Check(int socket) {
  DP_ASSIGN_OR_RETURN(const sockaddr_storage peer, PeerAddressOf(socket));
  if (Has(peer)) return absl::OkStatus();
  const std::string reasons = Resolve();
  if (Has(peer)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "a process at ", SocketHost(peer), " has connected, which is no host of the job", reasons));
}

std::string AllowedHosts::Resolve() {
  std::string reasons;
  std::vector<std::string> still;
  for (std::string& host : unresolved_) {
    const auto found = AddressesOf(host);
    if (!found.ok()) {
      absl::StrAppend(&reasons, "; ", found.status().message());
      still.push_back(std::move(host));
      continue;
    }
    for (const sockaddr_storage& address : *found) {
      addresses_.insert(SocketHost(address));
      this_host_ = this_host_ || IsOfThisHost(address);
    }
  }
  unresolved_ = std::move(still);
  return reasons;
}

bool AllowedHosts::Has(const sockaddr_storage& peer) const {
  return addresses_.count(SocketHost(peer)) > 0 || (this_host_ && IsOfThisHost(peer));
}

}  // namespace dp::wire
