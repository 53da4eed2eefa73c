#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"

// Sockets as values. Every socket made here is non-blocking and closed on exec.

namespace dp::wire {

// The status for errno: "<what>: <reason>", with the code that fits.
absl::Status ErrnoStatus(absl::string_view what);

// Listens on `host`, a numeric address or a name. An empty host is every address of both families,
// in one socket. Port 0 is any free port.
// Errors: InvalidArgument no such host; AlreadyExists the port is taken; others of the system.
absl::StatusOr<FileDescriptor> Listen(const std::string& host, uint16_t port);

// Sets options that the listener's connections inherit: no delay of small writes, and probes that
// notice within two minutes that a host is gone.
absl::Status PrepareListener(int listener);

absl::StatusOr<uint16_t> PortOf(int socket);
// Address and port as text (base/socket_end.h): of this end, and of the other end.
// Errors: Unavailable not connected.
absl::StatusOr<std::string> EndOf(int socket);
absl::StatusOr<std::string> PeerOf(int socket);
// The other end as an address. Errors: as for PeerOf.
absl::StatusOr<sockaddr_storage> PeerAddressOf(int socket);

// All addresses of `host`, a numeric address or a name; their ports are 0. Resolving a name may
// take seconds. Errors: InvalidArgument no such host.
absl::StatusOr<std::vector<sockaddr_storage>> AddressesOf(const std::string& host);
// True if the address is one of this host's own. Sends nothing.
bool IsOfThisHost(const sockaddr_storage& address);

// Connects to the first address of `host`:`port` that accepts, IPv6 first, with `timeout` for each.
// Errors: InvalidArgument no such host; Unavailable refused; DeadlineExceeded; others of the
// system.
absl::StatusOr<FileDescriptor> Connect(const std::string& host, uint16_t port,
                                       absl::Duration timeout);

// Waits until the socket can be read (POLLIN) or written (POLLOUT), or its peer is gone.
// Errors: DeadlineExceeded.
absl::Status AwaitSocket(int socket, short events, absl::Duration timeout);

}  // namespace dp::wire
