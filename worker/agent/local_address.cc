#include "worker/agent/local_address.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/host_port.h"
#include "base/status.h"

namespace dp::worker {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Errors: Unavailable with the resolver's reason.
absl::StatusOr<AddressList> Resolve(const HostPort& remote) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(remote.host.c_str(), remote.port.c_str(), &hints, &found);
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  return AddressList(found, &freeaddrinfo);
}

// Connecting a datagram socket only chooses the route.
absl::StatusOr<std::string> AddressOfRoute(const addrinfo& remote) {
  const FileDescriptor socket(::socket(remote.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage local{};
  socklen_t size = sizeof(local);
  auto* address = reinterpret_cast<sockaddr*>(&local);
  char text[NI_MAXHOST];
  if (!socket.valid() || connect(socket.get(), remote.ai_addr, remote.ai_addrlen) != 0 ||
      getsockname(socket.get(), address, &size) != 0) {
    return absl::UnavailableError(std::strerror(errno));
  }
  if (getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) {
    return absl::UnavailableError("its address has no text form");
  }
  return std::string(text);
}

std::string Digits(const sockaddr* address) {
  char text[NI_MAXHOST] = "";
  const socklen_t size =
      address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const bool known = address->sa_family == AF_INET6 || address->sa_family == AF_INET;
  if (known) getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return text;
}

bool IsWildcard(const sockaddr& address) {
  const std::string digits = Digits(&address);
  return digits == "0.0.0.0" || digits == "::";
}

}  // namespace

absl::StatusOr<std::string> LocalAddressTowards(const std::string& remote) {
  DP_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(remote));
  const absl::StatusOr<AddressList> candidates = Resolve(parsed);
  if (!candidates.ok()) {
    return absl::UnavailableError(
        absl::StrCat("host ", parsed.host, ": ", std::string(candidates.status().message())));
  }
  absl::Status last = absl::UnavailableError("it has no address");
  for (const addrinfo* each = candidates->get(); each != nullptr; each = each->ai_next) {
    absl::StatusOr<std::string> address = AddressOfRoute(*each);
    if (address.ok()) return address;
    last = address.status();
  }
  return absl::UnavailableError(
      absl::StrCat("no route to ", remote, ": ", std::string(last.message())));
}

absl::Status CheckOwnAddress(const std::string& address) {
  const absl::StatusOr<AddressList> found = Resolve({address, "0"});
  if (!found.ok()) {
    return absl::UnavailableError(absl::StrCat("--address ", address, " does not resolve (",
                                               std::string(found.status().message()),
                                               "); correct it, or wait for the name server"));
  }
  for (const addrinfo* each = found->get(); each != nullptr; each = each->ai_next) {
    if (IsWildcard(*each->ai_addr)) {
      return absl::InvalidArgumentError(
          absl::StrCat(address, " stands for every address; give the one that peers connect to"));
    }
    const FileDescriptor socket(::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.valid() && bind(socket.get(), each->ai_addr, each->ai_addrlen) == 0) {
      return absl::OkStatus();
    }
  }
  return absl::UnavailableError(
      absl::StrCat(address, " is no address of this host; `ip address` lists those it has"));
}

std::string InterfaceWith(const std::string& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string name;
  for (const ifaddrs* each = all; each != nullptr && name.empty(); each = each->ifa_next) {
    if (each->ifa_addr != nullptr && Digits(each->ifa_addr) == address) name = each->ifa_name;
  }
  freeifaddrs(all);
  return name;
}

}  // namespace dp::worker
