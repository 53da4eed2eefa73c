#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/id.h"
#include "dp/v1/workers.pb.h"
#include "server/driver/driver.h"
#include "server/driver/latest_news.h"

namespace dp::server {

// Which rank holds which connection to a store, as the daemons last reported. The table is for
// display and never for decisions, so no journal holds it: a restarted coordinator gets new
// reports.
//
// Report may be called on any thread, the other methods on the driver's.
class ClientTable {
 public:
  // Takes all connections of the worker's ranks, reported with a heartbeat that renewed the lease.
  // Keeps a bounded part of them.
  void Report(WorkerId worker, Incarnation incarnation, const v1::StoreClients& clients);
  // Takes in the reports, except those of incarnations that have ended. Every reader of the table
  // and every registration calls this, so the number of workers bounds the pending reports.
  void TakeNews(const View& view);
  // The ranks of the job's present generation by their ends of connections, as reported by the
  // workers that run them. An end that is reported for two ranks is left out.
  std::map<std::string, int> Of(const core::Job& job, const View& view);
  // The job's ranks that have a connection.
  std::set<int> Connected(const core::Job& job, const View& view);

 private:
  struct Client {
    Generation generation;
    int rank = 0;
    std::string end;
  };
  using Clients = std::map<JobId, std::vector<Client>>;
  using Told = LatestNews<Clients>::Told;
  // Calls `visit` with each client that the job's workers reported for its present generation.
  template <typename Visit>
  void ForEach(const core::Job& job, const View& view, Visit visit);
  // True if the client is a rank of the present generation, and the worker runs it.
  static bool Holds(WorkerId worker, const core::Job& job, const Client& client);
  static bool Alive(WorkerId worker, const Told& told, const View& view);

  LatestNews<Clients> news_;
  std::map<WorkerId, Told> told_;
};

}  // namespace dp::server
