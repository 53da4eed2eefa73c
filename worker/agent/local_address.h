#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace dp::worker {

// The address that this host uses to talk to `remote` (host:port), as digits: the one its peers on
// the same network can reach it at. Looks names up, so it may block; sends nothing. Errors:
// InvalidArgument; Unavailable when the name is unknown or there is no route.
absl::StatusOr<std::string> LocalAddressTowards(const std::string& remote);

// Whether ranks can listen on `address`, a name or digits, so that peers on other hosts reach them.
// Looks names up, so it may block. Errors: InvalidArgument it stands for every address; Unavailable
// the name does not resolve, or this host does not have the address: either may change.
absl::Status CheckOwnAddress(const std::string& address);

// The network interface that has this address, in digits, on this host; empty where none has.
std::string InterfaceWith(const std::string& address);

}  // namespace dp::worker
