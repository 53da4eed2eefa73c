#include "base/socket_end.h"

#include <arpa/inet.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace dp {

std::string SocketEnd(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof(v4));
    return SocketEnd(v4.sin_addr, ntohs(v4.sin_port));
  }
  if (address.ss_family != AF_INET6) return "";
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address, sizeof(v6));
  return SocketEnd(v6.sin6_addr, ntohs(v6.sin6_port));
}

std::string SocketEnd(const in_addr& address, uint16_t port) {
  char text[INET_ADDRSTRLEN];
  return absl::StrCat(inet_ntop(AF_INET, &address, text, sizeof(text)), ":", port);
}

std::string SocketEnd(const in6_addr& address, uint16_t port) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    in_addr v4{};
    std::memcpy(&v4, &address.s6_addr[12], sizeof(v4));
    return SocketEnd(v4, port);
  }
  char text[INET6_ADDRSTRLEN];
  return absl::StrCat("[", inet_ntop(AF_INET6, &address, text, sizeof(text)), "]:", port);
}

std::string SocketHost(const sockaddr_storage& address) {
  const std::string end = SocketEnd(address);
  return end.substr(0, end.rfind(':'));
}

std::string SocketEndOfPeer(absl::string_view peer) {
  if (!absl::ConsumePrefix(&peer, "ipv4:")) (void)absl::ConsumePrefix(&peer, "ipv6:");
  std::string end = absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}});
  const size_t link = end.find("%25"), port = end.find("]:");
  if (link != std::string::npos && port != std::string::npos) end.erase(link, port - link);
  return end;
}

}  // namespace dp
