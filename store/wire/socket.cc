#include "store/wire/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/socket_end.h"
#include "base/status.h"
#include "store/wire/deadline.h"

namespace dp::wire {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// `flags` as for getaddrinfo.
absl::StatusOr<Addresses> Resolve(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), absl::StrCat(port).c_str(),
                                &hints, &found);
  if (error != 0)
    return absl::InvalidArgumentError(
        absl::StrCat("no address for host '", host, "': ", gai_strerror(error)));
  return Addresses(found, &freeaddrinfo);
}

FileDescriptor OpenSocket(const addrinfo& address) {
  return FileDescriptor(socket(
      address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
}

absl::Status Switch(int socket, int level, int option, int value) {
  if (setsockopt(socket, level, option, &value, sizeof(value)) == 0) return absl::OkStatus();
  return ErrnoStatus("setsockopt");
}

absl::StatusOr<FileDescriptor> ListenAt(const addrinfo& address, bool both_families) {
  FileDescriptor listener = OpenSocket(address);
  if (!listener.valid()) return ErrnoStatus("socket");
  DP_RETURN_IF_ERROR(Switch(listener.get(), SOL_SOCKET, SO_REUSEADDR, 1));
  if (address.ai_family == AF_INET6)
    DP_RETURN_IF_ERROR(Switch(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, both_families ? 0 : 1));
  // If two sockets bind at the same moment, both succeed; the second one then fails in listen.
  const auto failed = [](const char* call) {
    return errno == EADDRINUSE ? absl::AlreadyExistsError("the port is taken") : ErrnoStatus(call);
  };
  if (bind(listener.get(), address.ai_addr, address.ai_addrlen) != 0) return failed("bind");
  // The system caps the backlog at net.core.somaxconn. Thousands of ranks connect at once.
  if (listen(listener.get(), 1 << 16) != 0) return failed("listen");
  return listener;
}

// The first of the addresses of one family that `open` can use.
template <typename Open>
absl::StatusOr<FileDescriptor> FirstOf(const addrinfo* addresses, int family, Open open) {
  absl::StatusOr<FileDescriptor> opened = absl::UnavailableError("no address of that family");
  for (const addrinfo* a = addresses; a != nullptr; a = a->ai_next) {
    if (a->ai_family != family) continue;
    opened = open(*a);
    if (opened.ok()) break;
  }
  return opened;
}

absl::StatusOr<FileDescriptor> ConnectTo(const addrinfo& address, absl::Duration timeout) {
  FileDescriptor socket = OpenSocket(address);
  if (!socket.valid()) return ErrnoStatus("socket");
  DP_RETURN_IF_ERROR(Switch(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1));
  if (connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS) return ErrnoStatus("connect");
  DP_RETURN_IF_ERROR(AwaitSocket(socket.get(), POLLOUT, timeout));
  socklen_t bytes = sizeof(errno);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &errno, &bytes) != 0 || errno != 0)
    return ErrnoStatus("connect");
  return socket;
}

template <typename Open>
absl::StatusOr<FileDescriptor> EitherFamily(const addrinfo* addresses, Open open) {
  absl::StatusOr<FileDescriptor> opened = FirstOf(addresses, AF_INET6, open);
  if (opened.ok()) return opened;
  absl::StatusOr<FileDescriptor> second = FirstOf(addresses, AF_INET, open);
  // Both failed: return the error that says more.
  const bool no_second =
      absl::IsUnavailable(second.status()) && !absl::IsUnavailable(opened.status());
  return no_second ? std::move(opened) : std::move(second);
}

using NameCall = int (*)(int socket, sockaddr* address, socklen_t* bytes);

absl::StatusOr<sockaddr_storage> AddressOf(NameCall call, const char* name, int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  if (call(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return ErrnoStatus(name);
  return address;
}

bool IsLoopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  }
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_V4MAPPED(&v6) ? v6.s6_addr[12] == IN_LOOPBACKNET : IN6_IS_ADDR_LOOPBACK(&v6);
}

uint16_t PortIn(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace

absl::Status ErrnoStatus(absl::string_view what) {
  const int error = errno;
  return absl::ErrnoToStatus(error, what);
}

absl::StatusOr<FileDescriptor> Listen(const std::string& host, uint16_t port) {
  DP_ASSIGN_OR_RETURN(Addresses addresses, Resolve(host, port, AI_PASSIVE));
  auto listened = EitherFamily(
      addresses.get(), [&](const addrinfo& address) { return ListenAt(address, host.empty()); });
  if (listened.ok()) return listened;
  return absl::Status(
      listened.status().code(),
      absl::StrCat("listening on '", host, "' port ", port, ": ", listened.status().message()));
}

absl::Status PrepareListener(int listener) {
  DP_RETURN_IF_ERROR(Switch(listener, IPPROTO_TCP, TCP_NODELAY, 1));
  DP_RETURN_IF_ERROR(Switch(listener, SOL_SOCKET, SO_KEEPALIVE, 1));
  DP_RETURN_IF_ERROR(Switch(listener, IPPROTO_TCP, TCP_KEEPIDLE, 60));
  DP_RETURN_IF_ERROR(Switch(listener, IPPROTO_TCP, TCP_KEEPINTVL, 10));
  return Switch(listener, IPPROTO_TCP, TCP_KEEPCNT, 6);
}

absl::StatusOr<uint16_t> PortOf(int socket) {
  DP_ASSIGN_OR_RETURN(const sockaddr_storage address,
                      AddressOf(getsockname, "getsockname", socket));
  return PortIn(address);
}

absl::StatusOr<std::string> EndOf(int socket) {
  DP_ASSIGN_OR_RETURN(const sockaddr_storage address,
                      AddressOf(getsockname, "getsockname", socket));
  return SocketEnd(address);
}

absl::StatusOr<std::string> PeerOf(int socket) {
  DP_ASSIGN_OR_RETURN(const sockaddr_storage address, PeerAddressOf(socket));
  return SocketEnd(address);
}

absl::StatusOr<sockaddr_storage> PeerAddressOf(int socket) {
  return AddressOf(getpeername, "getpeername", socket);
}

absl::StatusOr<std::vector<sockaddr_storage>> AddressesOf(const std::string& host) {
  DP_ASSIGN_OR_RETURN(const Addresses found, Resolve(host, 0, 0));
  std::vector<sockaddr_storage> addresses;
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    std::memcpy(&addresses.emplace_back(), each->ai_addr, each->ai_addrlen);
  }
  return addresses;
}

// The route to an address of this host begins at that address. Connecting a datagram socket only
// chooses the route.
bool IsOfThisHost(const sockaddr_storage& address) {
  if (IsLoopback(address)) return true;
  const FileDescriptor route(socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (connect(route.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return false;
  }
  const auto from = AddressOf(getsockname, "getsockname", route.get());
  return from.ok() && SocketHost(*from) == SocketHost(address);
}

absl::StatusOr<FileDescriptor> Connect(const std::string& host, uint16_t port,
                                       absl::Duration timeout) {
  DP_ASSIGN_OR_RETURN(Addresses addresses, Resolve(host, port, 0));
  auto connected = EitherFamily(
      addresses.get(), [timeout](const addrinfo& address) { return ConnectTo(address, timeout); });
  if (connected.ok()) return connected;
  return absl::Status(
      connected.status().code(),
      absl::StrCat("connecting to '", host, "' port ", port, ": ", connected.status().message()));
}

absl::Status AwaitSocket(int socket, short events, absl::Duration timeout) {
  const Deadline deadline(timeout);
  for (;;) {
    const absl::Duration left = std::max(deadline.left(), absl::ZeroDuration());
    // Rounded up, so that poll does not end slightly early again and again. A day stands in for
    // ever.
    const int64_t ms = absl::ToInt64Milliseconds(
        absl::Ceil(std::min(left, absl::Hours(24)), absl::Milliseconds(1)));
    pollfd polled{socket, events, 0};
    const int ready = poll(&polled, 1, static_cast<int>(ms));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return ErrnoStatus("poll");
    if (ready == 0 && left <= absl::Hours(24)) return absl::DeadlineExceededError("timed out");
  }
}

}  // namespace dp::wire
