#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

// One end of a TCP connection as text, "10.0.0.2:40312" or "[fd00::1]:40312". Both peers and the
// kernel's tables give the same text, so that ends can be compared. An IPv4-mapped IPv6 address is
// written as IPv4: programs reach IPv4 addresses through IPv6 sockets.

namespace dp {

// Either family; empty for any other.
std::string SocketEnd(const sockaddr_storage& address);
// `port` in host byte order.
std::string SocketEnd(const in_addr& address, uint16_t port);
std::string SocketEnd(const in6_addr& address, uint16_t port);
// The same text without the port: "10.0.0.2", "[fd00::1]".
std::string SocketHost(const sockaddr_storage& address);
// From the form that gRPC gives a peer: "ipv4:10.0.0.2:40312" or "ipv6:%5Bfe80::1%252%5D:40312",
// where 2 is the number of a link.
std::string SocketEndOfPeer(absl::string_view peer);

}  // namespace dp
