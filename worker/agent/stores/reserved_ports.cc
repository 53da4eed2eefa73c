#include "worker/agent/stores/reserved_ports.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dp::worker {
namespace {

// A socket of both IP versions, or of IPv4 if the host has no IPv6.
FileDescriptor OpenSocket(bool* v6) {
  FileDescriptor socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int off = 0;
  *v6 =
      socket.valid() && setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0;
  return *v6 ? std::move(socket) : FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

// Binds any free port. If there is none, returns 0 and sets errno.
int BindAny(const FileDescriptor& socket, bool v6) {
  sockaddr_in6 address6{};
  address6.sin6_family = AF_INET6;
  sockaddr_in address4{};
  address4.sin_family = AF_INET;
  auto* address =
      v6 ? reinterpret_cast<sockaddr*>(&address6) : reinterpret_cast<sockaddr*>(&address4);
  socklen_t size = v6 ? sizeof(address6) : sizeof(address4);
  const int on = 1;
  if (setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      bind(socket.get(), address, size) != 0 || getsockname(socket.get(), address, &size) != 0) {
    return 0;
  }
  return ntohs(v6 ? address6.sin6_port : address4.sin_port);
}

}  // namespace

absl::StatusOr<ReservedPorts> ReservedPorts::Reserve(int count) {
  ReservedPorts ports;
  for (int i = 0; i < count; ++i) {
    bool v6 = false;
    FileDescriptor socket = OpenSocket(&v6);
    const int port = socket.valid() ? BindAny(socket, v6) : 0;
    if (port == 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "cannot keep ", count, " ports free for the slots' programs: ", std::strerror(errno)));
    }
    ports.sockets_.push_back(std::move(socket));
    ports.numbers_.push_back(port);
  }
  return ports;
}

}  // namespace dp::worker
