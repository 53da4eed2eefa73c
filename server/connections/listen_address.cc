#include "server/connections/listen_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file_descriptor.h"

namespace dp::server {
namespace {

// Connections that have not been accepted yet: those of thousands of daemons after a restart.
constexpr int kBacklog = 4096;

// errno says why the socket is not valid.
FileDescriptor ListenAt(const sockaddr& address, socklen_t size) {
  FileDescriptor fd(socket(address.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fd;
  const int on = 1;
  // A coordinator that restarts finds connections of its predecessor.
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool listens = bind(fd.get(), &address, size) == 0 && listen(fd.get(), kBacklog) == 0;
  return listens ? std::move(fd) : FileDescriptor();
}

// Every address of both families.
FileDescriptor ListenEverywhere(int port) {
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_any;
  any.sin6_port = htons(static_cast<uint16_t>(port));
  return ListenAt(reinterpret_cast<const sockaddr&>(any), sizeof(any));
}

}  // namespace

absl::StatusOr<ListenAddress> ListenAddress::Parse(absl::string_view text) {
  const size_t colon = text.rfind(':');
  ListenAddress address;
  if (colon == 0 || colon == text.npos ||
      !absl::SimpleAtoi(text.substr(colon + 1), &address.port) || address.port < 0 ||
      address.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("address is \"", text, "\"; it must be host:port with a port up to 65535"));
  }
  absl::string_view host = text.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) host = "";
  if (host.empty() || host.find_first_of("[]") != host.npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "address is \"", text, "\"; it has no host, or brackets that are not around the host"));
  }
  address.host = std::string(host);
  return address;
}

bool ListenAddress::loopback() const {
  in_addr v4{};
  const bool is_v4 = inet_pton(AF_INET, host.c_str(), &v4) == 1;
  return host == "localhost" || host == "::1" || (is_v4 && ntohl(v4.s_addr) >> 24 == 127);
}

std::string ListenAddress::ToString() const {
  const bool v6 = absl::StrContains(host, ":");
  return v6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<FileDescriptor> ListenAddress::Listen(const char* flag) const {
  if (host == "0.0.0.0") {
    if (FileDescriptor both = ListenEverywhere(port); both.valid()) return both;
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int resolved = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (resolved != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", ToString(), ": ", gai_strerror(resolved),
                     "; give a name or address of this host with ", flag));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  FileDescriptor listener = ListenAt(*found->ai_addr, found->ai_addrlen);
  if (listener.valid()) return listener;
  const int error = errno;
  if (error == EADDRNOTAVAIL) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", ToString(), ": this host has no such address; give one ",
                     "that it has, as `ip address` lists them, or 0.0.0.0 for all, with ", flag));
  }
  const char* remedy =
      error == EADDRINUSE ? "stop the program that listens there, or choose" : "choose";
  return absl::UnavailableError(absl::StrCat("cannot listen on ", ToString(), ": ",
                                             std::generic_category().message(error), "; ", remedy,
                                             " another address with ", flag));
}

}  // namespace dp::server
