#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

// The end of a connection by TCP as text, "10.0.0.2:40312" or "[fd00::1]:40312": both sides of it
// and the kernel's tables write it the same way, so that it can be compared. An address of IPv6
// that stands for one of IPv4 is written as that one: programs reach the latter by sockets of IPv6.

namespace dp {

// Of either family; empty for another.
std::string SocketEnd(const sockaddr_storage& address);
// Of one; the port as people count it.
std::string SocketEnd(const in_addr& address, uint16_t port);
std::string SocketEnd(const in6_addr& address, uint16_t port);

}  // namespace dp
