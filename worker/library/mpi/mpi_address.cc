#include "worker/library/mpi/mpi_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "store/wire/socket.h"

namespace dp::library {
namespace {

// "10.1.0.0/16", as Open MPI takes networks.
bool IsInNetwork(const std::string& digits, const std::string& network) {
  const std::vector<std::string> parts = absl::StrSplit(network, '/');
  in_addr address{}, base{};
  int bits = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &bits) || bits < 0 || bits > 32 ||
      inet_pton(AF_INET, digits.c_str(), &address) != 1 ||
      inet_pton(AF_INET, parts[0].c_str(), &base) != 1)
    return false;
  const uint64_t mask = ~uint64_t{0} << (32 - bits);
  return ((ntohl(address.s_addr) ^ ntohl(base.s_addr)) & mask & 0xffffffff) == 0;
}

bool IsWanted(const InterfaceAddress& own, const std::string& wanted) {
  return own.interface == wanted || IsInNetwork(own.digits, wanted);
}

// Empty for loopback, for addresses of one link alone, and for other families.
std::string DigitsForPeers(const sockaddr* address) {
  char digits[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    const in_addr& four = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    if (ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET) return "";
    inet_ntop(AF_INET, &four, digits, sizeof(digits));
  } else if (address->sa_family == AF_INET6) {
    const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (IN6_IS_ADDR_LOOPBACK(&six) || IN6_IS_ADDR_LINKLOCAL(&six)) return "";
    inet_ntop(AF_INET6, &six, digits, sizeof(digits));
  }
  return digits;
}

std::vector<std::string> AddressesOfHostName() {
  char name[256] = "";
  (void)gethostname(name, sizeof(name) - 1);
  std::vector<std::string> digits;
  const auto found = wire::AddressesOf(name);  // a name that does not resolve is no hint
  if (!found.ok()) return digits;
  for (const sockaddr_storage& address : *found)
    digits.push_back(DigitsForPeers(reinterpret_cast<const sockaddr*>(&address)));
  std::erase(digits, "");
  return digits;
}

std::vector<InterfaceAddress> AddressesOfInterfaces() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  std::vector<InterfaceAddress> own;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const std::string digits = DigitsForPeers(each->ifa_addr);
    if (!digits.empty()) own.push_back({each->ifa_name, digits});
  }
  freeifaddrs(all);
  std::stable_partition(own.begin(), own.end(), [](const InterfaceAddress& address) {
    return address.digits.find(':') == std::string::npos;
  });
  return own;
}

}  // namespace

absl::StatusOr<std::string> AddressForOtherHosts(const AddressHints& hints) {
  if (hints.chosen) return *hints.chosen;
  for (const absl::string_view wanted :
       absl::StrSplit(hints.mpi_interfaces, ',', absl::SkipEmpty())) {
    for (const InterfaceAddress& own : hints.own)
      if (IsWanted(own, std::string(wanted))) return own.digits;
  }
  if (!hints.of_host_name.empty()) return hints.of_host_name.front();
  if (!hints.own.empty()) return hints.own.front().digits;
  return absl::FailedPreconditionError(
      "backend mpi: this host has no address but loopback, so that ranks of other hosts cannot "
      "reach it; bring its network up, or set DP_ADDRESS to an address of it");
}

AddressHints HintsOfThisHost(const Variables& variables) {
  return {.chosen = variables("DP_ADDRESS"),
          .mpi_interfaces = variables("OMPI_MCA_btl_tcp_if_include").value_or(""),
          .of_host_name = AddressesOfHostName(),
          .own = AddressesOfInterfaces()};
}

}  // namespace dp::library
