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
#include "base/store/wire/server.h"
#include "client/async_store_connection.h"
#include "dp/v1/workers.pb.h"
#include "worker/agent/launch_environment.h"
#include "worker/agent/store_client_watch.h"

namespace dp::worker {

// Where a daemon is, for the ranks that it serves a store.
struct StoreHost {
  std::string worker;       // the daemon's name
  std::string address;      // of this host for peers
  std::string coordinator;  // HOST:PORT
};

// The TCPStore endpoints that this daemon serves, at most one for each generation, each with a
// relay to the coordinator of its own (docs/tcpstore.md). In a generation's life every rank of it
// on this host finds the same one; whose connection is whose is known (StoreClientWatch). Owned by
// the agent, and used on its thread; the connection outlives it.
class StoreEndpoints {
 public:
  using Over = std::function<void(JobId, Generation)>;

  // `over` is called on any thread, when the coordinator says that a generation is over whose
  // endpoint is still served; the owner passes that on to GenerationOver. `seed` is of the relays'
  // incarnations.
  StoreEndpoints(client::AsyncStoreConnection& connection, uint64_t seed, Over over);
  ~StoreEndpoints();
  StoreEndpoints(const StoreEndpoints&) = delete;
  StoreEndpoints& operator=(const StoreEndpoints&) = delete;

  // Where the rank's program finds its store; from now on it is served there, by this daemon where
  // that is its task.
  // Errors: AlreadyExists the port is taken; others of the system; FailedPrecondition no endpoint.
  absl::StatusOr<StoreEndpoint> Open(const v1::AssignedRank& rank, const StoreHost& host);
  // No rank of the generation is left on this host. Ends the endpoint, unless it serves other hosts
  // as well: then it goes on until the generation is over.
  void RanksGone(JobId job, Generation generation);
  // Now it serves no other hosts; it ends when RanksGone says so.
  void GenerationOver(JobId job, Generation generation);

  // The connections of ranks to stores that others serve, where they have changed since `number`,
  // which is brought up to date. Any thread.
  std::optional<v1::StoreClients> ClientsSince(uint64_t* number) const;

 private:
  struct Endpoint;
  using Key = std::pair<JobId, Generation>;

  absl::StatusOr<std::unique_ptr<Endpoint>> Serve(const v1::AssignedRank& rank,
                                                  const StoreHost& host);
  std::unique_ptr<Endpoint> MakeRelay(const v1::AssignedRank& rank, const StoreHost& host);
  void Close(JobId job, Generation generation);
  // Names callers of the endpoint, which does not outlive this.
  std::function<std::optional<int>(const std::string&)> RankAt(JobId job,
                                                               Generation generation) const;

  client::AsyncStoreConnection& connection_;
  uint64_t random_state_;
  const Over over_;
  StoreClientWatch clients_;
  wire::MessageMemory memory_{wire::kServerMemoryBytes};  // for what the ranks of this host send
  std::map<Key, std::unique_ptr<Endpoint>> endpoints_;    // last: they use the two above
};

}  // namespace dp::worker
