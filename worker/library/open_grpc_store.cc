#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>

#include "base/file_descriptor.h"
#include "base/host_port.h"
#include "base/status.h"
#include "store/wire/socket.h"
#include "worker/library/grpc_place.h"

namespace dp::library {
namespace {

// The address of this process towards the host of `address`; empty if there is no way to it.
// Connecting a datagram socket only looks up the route, and sends nothing.
std::string AddressOnRouteTo(const std::string& address) {
  const auto parts = ParseHostPort(address);
  if (!parts.ok()) return "";
  const auto hosts = wire::AddressesOf(parts->host);
  if (!hosts.ok()) return "";
  for (sockaddr_storage host : *hosts) {
    // Any port will do, and each family has it in the same place.
    reinterpret_cast<sockaddr_in&>(host).sin_port = htons(1);
    const FileDescriptor socket(::socket(host.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (connect(socket.get(), reinterpret_cast<sockaddr*>(&host), sizeof(host)) != 0) continue;
    const auto end = wire::EndOf(socket.get());
    if (!end.ok()) continue;
    const auto own = ParseHostPort(*end);
    if (own.ok()) return own->host;
  }
  return "";
}

}  // namespace

absl::StatusOr<std::shared_ptr<OpenStore>> OpenGrpcStore(
    const distributed::GrpcStoreOptions& options, const Variables& variables) {
  DP_ASSIGN_OR_RETURN(const GrpcPlace place, ReadGrpcPlace(options, variables));
  DP_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, ConnectGrpc(place));
  return std::make_shared<OpenStore>(
      OpenStore{nullptr, std::move(store), AddressOnRouteTo(place.coordinator)});
}

}  // namespace dp::library
