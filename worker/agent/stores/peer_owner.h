#pragma once

#include <sys/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// The owner of the other end of a connection within this host. TCPStore's protocol has no
// credentials, and every user of a host reaches its loopback ports.

namespace dp::worker {

// The user that owns the other end of a connected TCP socket, from the kernel's table of sockets
// (sock_diag(7)). Takes some microseconds. Errors: NotFound the other end is on another host.
// Unavailable it is on this host and closed, so its owner is unknown. Others of the system.
absl::StatusOr<uid_t> OwnerOfPeer(int socket);

// Whether the kernel shows its table, by a socket of this process: no client has a hand in the
// answer. Errors: NotFound or Unimplemented it does not.
absl::Status CheckSocketTable();

// OK if `owner`, of the other end of a connection, is the daemon's own user, whose processes its
// ranks are, or root. Errors: PermissionDenied names the user.
absl::Status CheckOwner(uid_t owner);

}  // namespace dp::worker
