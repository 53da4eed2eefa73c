#include "worker/agent/stores/store_endpoints.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/program/log.h"
#include "base/random.h"
#include "base/status.h"
#include "client/grpc_store_link.h"
#include "store/key_values.h"
#include "store/relay/store_relay.h"
#include "store/wire/allowed_hosts.h"
#include "store/wire/server.h"

namespace dp::worker {
namespace {

// Another daemon or a program may hold the port on 127.0.0.1. All of 127/8 is this host.
constexpr int kLoopbackAddresses = 250;
// Nobody ever sets this key: waiting for it ends with the generation.
constexpr char kNeverSet[] = "dp/end-of-job";

bool HoldsRank0(const v1::AssignedRank& rank) {
  return !rank.hosts().empty() && rank.rank() < rank.hosts(0).slots_size();
}

std::string HostOf(const std::string& host_port) {
  std::string host = host_port.substr(0, host_port.rfind(':'));
  const bool bracketed = host.size() > 1 && host.front() == '[' && host.back() == ']';
  return bracketed ? host.substr(1, host.size() - 2) : host;
}

// The addresses for the endpoint; it takes the first free one.
std::vector<std::string> AddressesFor(const v1::AssignedRank& rank) {
  if (rank.spec().command().store() == "rank0") return {rank.hosts(0).address()};
  std::vector<std::string> addresses;
  for (int i = 1; i <= kLoopbackAddresses; ++i) addresses.push_back(absl::StrCat("127.0.0.", i));
  return addresses;
}

uint16_t PortOfStore(const v1::AssignedRank& rank) {
  return static_cast<uint16_t>(rank.store_port());
}

// The limits that the coordinator sent with the rank, else the defaults.
wire::Limits LimitsFor(const v1::AssignedRank& rank) {
  if (!rank.has_store_limits()) return {};
  KeyValueLimits store;
  store.key_bytes = rank.store_limits().key_bytes();
  store.value_bytes = rank.store_limits().value_bytes();
  return wire::Limits::For(store);
}

// The store's endpoint, if this daemon is not the one to serve it.
std::optional<StoreEndpoint> Elsewhere(const v1::AssignedRank& rank, const StoreHost& host) {
  const std::string& mode = rank.spec().command().store();
  if (mode == "direct") {
    const std::string& told = rank.store_host();
    return StoreEndpoint{told.empty() ? HostOf(host.coordinator) : told, rank.store_port(), true};
  }
  if (mode != "rank0" || HoldsRank0(rank)) return std::nullopt;
  return StoreEndpoint{rank.hosts(0).address(), rank.store_port(), true};
}

std::vector<std::string> AddressesOf(const v1::AssignedRank& rank) {
  std::vector<std::string> addresses;
  for (const v1::HostRanks& host : rank.hosts()) addresses.push_back(host.address());
  return addresses;
}

absl::Status WithRemedy(const v1::AssignedRank& rank, const std::string& host,
                        const absl::Status& status) {
  return absl::Status(
      status.code(),
      absl::StrCat("store of job ", rank.job(), " on ", host, " port ", rank.store_port(), ": ",
                   std::string(status.message()),
                   "; free the port, or give the coordinator others with --store-ports"));
}

}  // namespace

struct StoreEndpoints::Endpoint {
  StoreEndpoint at;
  bool for_other_hosts = false;
  std::optional<wire::AllowedHosts> hosts;  // if it is for other hosts
  std::unique_ptr<client::GrpcStoreLink> link;
  std::unique_ptr<StoreRelay> relay;
  std::unique_ptr<wire::Server> server;  // last: it uses the relay
};

StoreEndpoints::StoreEndpoints(client::AsyncStoreConnection& connection, uint64_t seed, Over over,
                               const RankProcesses* ranks)
    : connection_(connection),
      random_state_(seed),
      over_(std::move(over)),
      ranks_(ranks),
      clients_([search = StoreClientSearch()](const StorePortOf& stores) mutable {
        return search.Find(stores);
      }) {}

StoreEndpoints::~StoreEndpoints() = default;

absl::StatusOr<StoreEndpoint> StoreEndpoints::Open(const v1::AssignedRank& rank,
                                                   const StoreHost& host, uid_t user) {
  if (rank.store_port() == 0 || rank.hosts().empty()) {
    return absl::FailedPreconditionError(absl::StrCat("job ", rank.job(), " has no store port"));
  }
  const std::optional<StoreEndpoint> elsewhere = Elsewhere(rank, host);
  const Key key{JobId(rank.job()), Generation(rank.generation())};
  clients_.Follow(key.first, key.second, PortOfStore(rank));
  if (elsewhere.has_value()) return *elsewhere;
  auto it = endpoints_.find(key);
  if (it == endpoints_.end()) {
    DP_ASSIGN_OR_RETURN(auto endpoint, Serve(rank, host, user));
    it = endpoints_.emplace(key, std::move(endpoint)).first;
  }
  return it->second->at;
}

absl::StatusOr<std::unique_ptr<StoreEndpoints::Endpoint>> StoreEndpoints::Serve(
    const v1::AssignedRank& rank, const StoreHost& host, uid_t user) {
  const ServedRanks served{JobId(rank.job()), Generation(rank.generation()), user};
  std::unique_ptr<Endpoint> endpoint = MakeRelay(rank, host);
  absl::Status taken;
  for (const std::string& address : AddressesFor(rank)) {
    auto server = wire::Server::Start(*endpoint->relay, {.host = address,
                                                         .port = PortOfStore(rank),
                                                         .requests = {.limits = LimitsFor(rank)},
                                                         .memory = &memory_,
                                                         .admit = AdmissionTo(served, *endpoint)});
    if (server.ok()) {
      endpoint->at = {address, rank.store_port(), true};
      endpoint->server = *std::move(server);
      Log(Severity::kInfo, "store_served",
          {{"job", rank.job()}, {"address", absl::StrCat(address, ":", rank.store_port())}});
      return endpoint;
    }
    taken = WithRemedy(rank, address, server.status());
    if (!absl::IsAlreadyExists(server.status())) break;
  }
  return taken;
}

std::unique_ptr<StoreEndpoints::Endpoint> StoreEndpoints::MakeRelay(const v1::AssignedRank& rank,
                                                                    const StoreHost& host) {
  const JobId job(rank.job());
  const Generation generation(rank.generation());
  auto endpoint = std::make_unique<Endpoint>();
  endpoint->for_other_hosts = rank.spec().command().store() == "rank0" && rank.hosts_size() > 1;
  if (endpoint->for_other_hosts) endpoint->hosts.emplace(AddressesOf(rank));
  client::GrpcStoreLink::Options link{.job = job,
                                      .generation = generation,
                                      .incarnation = NextRandom(random_state_) | 1,
                                      .worker = host.worker,
                                      .rank_at = RankAt(job, generation),
                                      .for_other_hosts = endpoint->for_other_hosts};
  endpoint->link = std::make_unique<client::GrpcStoreLink>(connection_, std::move(link));
  StoreRelayOptions relay{.job = job, .seed = NextRandom(random_state_)};
  relay.on_over = [over = over_, job, generation](const absl::Status&) { over(job, generation); };
  endpoint->relay = std::make_unique<StoreRelay>(*endpoint->link, std::move(relay));
  return endpoint;
}

std::function<absl::Status(int)> StoreEndpoints::AdmissionTo(const ServedRanks& served,
                                                             const Endpoint& endpoint) const {
  if (ranks_ == nullptr) return nullptr;
  if (const absl::Status shown = CheckSocketTable(); !shown.ok()) {
    Log(Severity::kWarning, "store_clients_unchecked", {{"reason", shown.ToString()}});
    return nullptr;
  }
  return [served, hosts = endpoint.hosts, ranks = ranks_](int socket) mutable {
    const absl::StatusOr<PeerOwner> owner = OwnerOfPeer(socket);
    // Ranks of other hosts may run under another daemon of this one.
    if (owner.ok() && hosts.has_value()) return CheckUser(owner->user, served);
    if (owner.ok()) return CheckOwner(*owner, served, *ranks);
    if (absl::IsNotFound(owner.status()) && hosts.has_value()) return hosts->Check(socket);
    return owner.status();
  };
}

std::function<std::optional<int>(const std::string&)> StoreEndpoints::RankAt(
    JobId job, Generation generation) const {
  return [this, job, generation](const std::string& end) {
    return clients_.RankAt(job, generation, end);
  };
}

std::optional<v1::StoreClients> StoreEndpoints::ClientsSince(uint64_t* number) const {
  const StoreClientWatch::Latest latest = clients_.latest();
  if (std::exchange(*number, latest.number) == latest.number) return std::nullopt;
  v1::StoreClients clients;
  for (const StoreClient& each : latest.clients) {
    v1::StoreClient* client = clients.add_clients();
    client->set_job(each.job.value());
    client->set_generation(each.generation.value());
    client->set_rank(each.rank);
    client->set_end(each.end);
  }
  return clients;
}

void StoreEndpoints::GenerationOver(JobId job, Generation generation) {
  const auto it = endpoints_.find({job, generation});
  if (it != endpoints_.end()) it->second->for_other_hosts = false;
}

void StoreEndpoints::RanksGone(JobId job, Generation generation) {
  clients_.Leave(job, generation);
  const auto it = endpoints_.find({job, generation});
  if (it == endpoints_.end()) return;
  if (!it->second->for_other_hosts) return Close(job, generation);
  it->second->relay->Await({StoreGet{kNeverSet}}, [this, job, generation](auto results) {
    // A failed relay hears nothing of the generation's end later, so act on it now.
    if (!results.ok() && !absl::IsCancelled(results.status())) over_(job, generation);
  });
}

void StoreEndpoints::Close(JobId job, Generation generation) {
  if (endpoints_.erase({job, generation}) > 0) {
    Log(Severity::kInfo, "store_closed", {{"job", job.value()}});
  }
}

}  // namespace dp::worker
