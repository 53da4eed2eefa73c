#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "store/async_hash_store.h"
#include "store/wire/deadline.h"
#include "store/wire/server.h"
#include "store/wire/socket.h"
#include "store/wire/tcp_store.h"
#include "worker/library/open_store.h"
#include "worker/library/pause.h"

namespace dp::library {
namespace {

// How long a client waits before it looks again for a server that does not listen yet.
constexpr absl::Duration kListensSoon = absl::Milliseconds(100);

// A store in this process' memory, and its server.
struct ServedStore {
  AsyncHashStore store;
  std::unique_ptr<wire::Server> server;
};

absl::StatusOr<bool> IsOwnHost(const std::string& host) {
  DP_ASSIGN_OR_RETURN(const auto addresses, wire::AddressesOf(host));
  return std::any_of(addresses.begin(), addresses.end(), wire::IsOfThisHost);
}

absl::StatusOr<std::shared_ptr<ServedStore>> Serve(const std::string& host, uint16_t port) {
  DP_ASSIGN_OR_RETURN(const bool own, IsOwnHost(host));
  auto served = std::make_shared<ServedStore>();
  auto server = wire::Server::Start(served->store, {.host = own ? host : "", .port = port});
  if (absl::IsAlreadyExists(server.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("port ", port, " of ", host,
                     " is taken by another program; choose another port, or let rank 0 connect to "
                     "the store there as a client, as TORCHELASTIC_USE_AGENT_STORE=True does"));
  }
  if (!server.ok()) return server.status();
  served->server = *std::move(server);
  return served;
}

absl::Status CheckPlace(const distributed::TcpStoreOptions& options) {
  if (options.host.empty())
    return absl::InvalidArgumentError(
        options.is_master
            ? "TcpStore: host is empty; give the address to serve at, or 0.0.0.0 for every address"
            : "TcpStore: host is empty; give the name or the address of the server's host");
  if (options.port == 0 && !options.is_master)
    return absl::InvalidArgumentError(
        absl::StrCat("TcpStore: port is 0; give the port of the server at ", options.host,
                     ", which its port() tells"));
  return absl::OkStatus();
}

bool MayListenSoon(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

// Another dialect may be what the server speaks.
bool MayBeOfAnotherDialect(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDataLoss(status);
}

// Servers of PyTorch before 2.1 close the connection of a client that speaks a newer dialect. A
// server may also begin to listen between two tries, so the newest dialect has the last one too.
absl::StatusOr<std::unique_ptr<wire::TcpStore>> OpenInAnyDialect(wire::TcpStoreOptions options,
                                                                 const wire::Deadline& deadline) {
  const auto open = [&](wire::Dialect dialect) {
    options.server.dialect = dialect;
    options.open_timeout = std::max(deadline.left(), kListensSoon);
    return wire::TcpStore::Open(options);
  };
  auto newest = open(wire::Dialect::kC);
  if (!MayBeOfAnotherDialect(newest.status()) || deadline.passed()) return newest;
  auto oldest = open(wire::Dialect::kA);
  if (!oldest.ok() || deadline.passed()) return oldest.ok() ? std::move(oldest) : std::move(newest);
  newest = open(wire::Dialect::kC);
  return newest.ok() ? std::move(newest) : std::move(oldest);
}

absl::StatusOr<std::unique_ptr<wire::TcpStore>> Connect(const std::string& host, uint16_t port,
                                                        absl::Duration timeout) {
  const wire::Deadline deadline(timeout);
  for (;;) {
    auto store =
        OpenInAnyDialect({.server = {.host = host, .port = port}, .timeout = timeout}, deadline);
    if (store.ok() || !MayListenSoon(store.status())) return store;
    if (deadline.passed()) {
      return absl::DeadlineExceededError(
          absl::StrCat("no store at ", host, ":", port, " within ", absl::FormatDuration(timeout),
                       " (", std::string(store.status().message()),
                       "); check that rank 0 runs and that its address can be reached"));
    }
    Pause(std::min(kListensSoon, deadline.left()));
  }
}

// The address from which this process reaches the server. A peer can reach it there too.
absl::StatusOr<std::string> AddressTowards(const std::string& host, uint16_t port,
                                           absl::Duration timeout) {
  DP_ASSIGN_OR_RETURN(const FileDescriptor socket, wire::Connect(host, port, timeout));
  DP_ASSIGN_OR_RETURN(const std::string end, wire::EndOf(socket.get()));
  const std::string address = end.substr(0, end.rfind(':'));
  return address.starts_with('[') ? address.substr(1, address.size() - 2) : address;
}

}  // namespace

absl::StatusOr<OpenTcp> OpenTcpStore(const distributed::TcpStoreOptions& options) {
  DP_RETURN_IF_ERROR(CheckPlace(options));
  const absl::Duration timeout = absl::FromChrono(options.timeout);
  std::shared_ptr<ServedStore> served;
  uint16_t port = options.port;
  std::string host = options.host;
  if (options.is_master) {
    DP_ASSIGN_OR_RETURN(served, Serve(host, port));
    port = served->server->port();
  }
  DP_ASSIGN_OR_RETURN(auto store, Connect(host, port, timeout));
  DP_ASSIGN_OR_RETURN(const std::string own, AddressTowards(host, port, timeout));
  return OpenTcp{std::make_shared<OpenStore>(OpenStore{std::move(served), std::move(store), own}),
                 port};
}

}  // namespace dp::library
