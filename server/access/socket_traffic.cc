#include "server/access/socket_traffic.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace dp::server {
namespace {

// As in the kernel's list of TCP states.
constexpr unsigned kTcpEstablished = 1;

}  // namespace

SocketTraffic TrafficOn(int socket) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {.ended = true};
  int unread = 0;
  if (ioctl(socket, SIOCOUTQ, &unread) != 0) unread = 0;
  return {.received = info.tcpi_bytes_received,
          .taken = info.tcpi_bytes_acked,
          .unread = static_cast<uint64_t>(unread),
          .ended = info.tcpi_state != kTcpEstablished};
}

void ResetConnection(int socket) {
  const linger reset{.l_onoff = 1, .l_linger = 0};
  (void)setsockopt(socket, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  (void)shutdown(socket, SHUT_RDWR);
}

}  // namespace dp::server
