#pragma once

#include <cstdint>

namespace dp::server {

// The kernel's counts of a TCP connection, in bytes; those of TLS count.
struct SocketTraffic {
  uint64_t received = 0;  // from the other side
  uint64_t taken = 0;     // by the other side
  uint64_t unread = 0;    // sent or about to be, and not yet taken by the other side
  bool ended = false;     // by one of both sides, or the socket is none of TCP
};

SocketTraffic TrafficOn(int socket);

// Ends the connection, whoever else holds the socket, and makes the last close of it send a reset.
// After a mere end, a client that sends into a closed window would notice only a minute later.
void ResetConnection(int socket);

}  // namespace dp::server
