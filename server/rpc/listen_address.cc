#include "server/rpc/listen_address.h"

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

// The errno of binding one address and listening there; 0 if both succeed.
int TryBind(const addrinfo& address) {
  const FileDescriptor fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno;
  const int on = 1;
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));  // as gRPC does
  const bool bound =
      bind(fd.get(), address.ai_addr, address.ai_addrlen) == 0 && listen(fd.get(), 1) == 0;
  return bound ? 0 : errno;
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
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
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

absl::Status ListenAddress::CheckFree(const char* flag) const {
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
  const int error = TryBind(*found);
  if (error == 0) return absl::OkStatus();
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
