#pragma once

#include <sys/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/id.h"
#include "worker/agent/processes/rank_processes.h"

// The owner of the other end of a connection within this host. TCPStore's protocol has no
// credentials, and every user of a host reaches its loopback ports.

namespace dp::worker {

// A process that holds the other end of a connection, as far as the kernel tells.
struct PeerOwner {
  uid_t user = 0;
  SocketId socket;
};

// The owner of the other end of a connected TCP socket, from the kernel's table of sockets
// (sock_diag(7)). Takes some microseconds. Errors: NotFound the other end is on another host.
// Unavailable it is on this host and closed, so its owner is unknown. Others of the system.
absl::StatusOr<PeerOwner> OwnerOfPeer(int socket);

// The owner in an answer of sock_diag to the question for one socket. Errors: NotFound there is no
// such socket, or no process holds it; Internal it is no whole answer. Pure; the bytes need no
// alignment.
absl::StatusOr<PeerOwner> OwnerInAnswer(absl::Span<const char> answer);

// Whether the kernel shows its table, by a socket of this process: no client has a hand in the
// answer. Errors: NotFound or Unimplemented it does not.
absl::Status CheckSocketTable();

// The ranks of a generation.
struct ServedRanks {
  JobId job;
  Generation generation;
  uid_t user = 0;  // as whom they run
};

// OK if `user` is that of the ranks, or root. Errors: PermissionDenied names both users.
absl::Status CheckUser(uid_t user, const ServedRanks& served);

// OK if the owner is a process of the served ranks, or of root if they do not run as root. Errors:
// PermissionDenied names the user, and that the process is of no rank.
absl::Status CheckOwner(const PeerOwner& owner, const ServedRanks& served,
                        const RankProcesses& processes);

}  // namespace dp::worker
