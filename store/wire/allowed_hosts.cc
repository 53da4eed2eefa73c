#include "store/wire/allowed_hosts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/socket_end.h"
#include "base/status.h"

namespace dp::wire {

absl::Status AllowedHosts::Check(int socket) {
  DP_ASSIGN_OR_RETURN(const sockaddr_storage peer, PeerAddressOf(socket));
  if (Has(peer)) return absl::OkStatus();
  Resolve();
  if (Has(peer)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "a process at ", SocketHost(peer), " has connected, which is no host of the job", reasons_));
}

void AllowedHosts::Resolve() {
  if (unresolved_.empty() || clock_->Now() < resolve_at_) return;
  reasons_.clear();
  std::vector<std::string> still;
  for (std::string& host : unresolved_) {
    const auto found = resolver_(host);
    if (!found.ok()) {
      absl::StrAppend(&reasons_, "; ", found.status().message());
      still.push_back(std::move(host));
      continue;
    }
    for (const sockaddr_storage& address : *found) {
      addresses_.insert(SocketHost(address));
      this_host_ = this_host_ || IsOfThisHost(address);
    }
  }
  unresolved_ = std::move(still);
  resolve_at_ = clock_->Now() + pause_;  // the attempts themselves take time
  pause_ = std::min(2 * pause_, kPauseMax);
}

bool AllowedHosts::Has(const sockaddr_storage& peer) const {
  return addresses_.count(SocketHost(peer)) > 0 || (this_host_ && IsOfThisHost(peer));
}

}  // namespace dp::wire
