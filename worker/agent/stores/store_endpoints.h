#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/id.h"
#include "client/async_store_connection.h"
#include "dp/v1/workers.pb.h"
#include "store/wire/server.h"
#include "worker/agent/launch/launch_environment.h"
#include "worker/agent/processes/rank_processes.h"
#include "worker/agent/stores/peer_owner.h"
#include "worker/agent/stores/store_client_watch.h"

namespace dp::worker {

// A daemon's place, for the ranks that it serves a store.
struct StoreHost {
  std::string worker;       // the daemon's name
  std::string address;      // for peers
  std::string coordinator;  // HOST:PORT
};

// The TCPStore endpoints that this daemon serves, at most one for each generation, each with its
// own relay to the coordinator (docs/tcpstore.md). All ranks of a generation on this host find the
// same endpoint. StoreClientWatch knows which rank holds which connection. Owned by the agent and
// used on its thread; `connection` must outlive it.
class StoreEndpoints {
 public:
  using Over = std::function<void(JobId, Generation)>;

  // `over` is called, on any thread, when the coordinator reports the end of a generation whose
  // endpoint is still served. The owner passes the call on to GenerationOver. `seed` is for the
  // relays' incarnations. `ranks`: the processes that are served, besides those of root. Null: all
  // of this host.
  StoreEndpoints(client::AsyncStoreConnection& connection, uint64_t seed, Over over,
                 const RankProcesses* ranks = nullptr);
  ~StoreEndpoints();
  StoreEndpoints(const StoreEndpoints&) = delete;
  StoreEndpoints& operator=(const StoreEndpoints&) = delete;

  // Returns where the rank's program finds its store. Starts an endpoint there if this daemon must
  // serve it; `user` is whom the generation's ranks run as. Errors: AlreadyExists the port is
  // taken; FailedPrecondition the job has no store port; others of the system.
  absl::StatusOr<StoreEndpoint> Open(const v1::AssignedRank& rank, const StoreHost& host,
                                     uid_t user);
  // No rank of the generation is left on this host. Closes the endpoint, unless it also serves
  // other hosts: then it stays until the generation is over.
  void RanksGone(JobId job, Generation generation);
  // The endpoint serves no other hosts any more; the next RanksGone closes it.
  void GenerationOver(JobId job, Generation generation);

  // The ranks' connections to stores, if they have changed since `number`, which is updated. Any
  // thread.
  std::optional<v1::StoreClients> ClientsSince(uint64_t* number) const;

 private:
  struct Endpoint;
  using Key = std::pair<JobId, Generation>;

  absl::StatusOr<std::unique_ptr<Endpoint>> Serve(const v1::AssignedRank& rank,
                                                  const StoreHost& host, uid_t user);
  std::unique_ptr<Endpoint> MakeRelay(const v1::AssignedRank& rank, const StoreHost& host);
  void Close(JobId job, Generation generation);
  // Which connections an endpoint serves.
  std::function<absl::Status(int socket)> AdmissionTo(const ServedRanks& served,
                                                      const Endpoint& endpoint) const;
  // Names callers of the endpoint by rank. The endpoint does not outlive this object.
  std::function<std::optional<int>(const std::string&)> RankAt(JobId job,
                                                               Generation generation) const;

  client::AsyncStoreConnection& connection_;
  uint64_t random_state_;
  const Over over_;
  const RankProcesses* const ranks_;
  StoreClientWatch clients_;
  wire::MessageMemory memory_{wire::kServerMemoryBytes};  // for requests of this host's ranks
  std::map<Key, std::unique_ptr<Endpoint>> endpoints_;    // last: they use the two above
};

}  // namespace dp::worker
