#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace dp::worker {

// The address that this host uses to talk to `remote` (host:port), as digits. Peers on the same
// network can reach the host there. Resolves names, so it may block; sends nothing. Errors:
// InvalidArgument; Unavailable the name is unknown or there is no route.
absl::StatusOr<std::string> LocalAddressTowards(const std::string& remote);

// Whether ranks can listen on `address`, a name or digits, so that peers on other hosts reach them.
// Resolves names, so it may block. Errors: InvalidArgument it stands for every address; Unavailable
// the name does not resolve, or this host does not have the address (either may change).
absl::Status CheckOwnAddress(const std::string& address);

// The network interface of this host that has this address, in digits; empty if none has.
std::string InterfaceWith(const std::string& address);

}  // namespace dp::worker
