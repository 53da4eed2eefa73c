#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/id.h"
#include "dp/v1/workers.pb.h"
#include "server/shell/driver.h"
#include "server/shell/latest_news.h"

namespace dp::server {

// Which rank holds which connection to a store, as the daemons have reported last. It is shown and
// never decided upon, so it is in no journal: a coordinator that was restarted hears of it anew.
//
// Report is for any thread, the other methods for the driver's.
class ClientTable {
 public:
  // Reported with a heartbeat that renewed a lease: all connections of the worker's ranks. Keeps a
  // bounded part of them.
  void Report(WorkerId worker, Incarnation incarnation, const v1::StoreClients& clients);
  // Takes what Report has brought, unless its life is over. Whoever reads the table does so, and
  // every registration: what has been reported is thus bounded by the number of workers.
  void TakeNews(const View& view);
  // The ranks of the job's present generation by their ends of connections, as told by the workers
  // that have them; two that are said to have the same one are not among them.
  std::map<std::string, int> Of(const core::Job& job, const View& view);
  // Its ranks that have a connection.
  std::set<int> Connected(const core::Job& job, const View& view);

 private:
  struct Client {
    Generation generation;
    int rank = 0;
    std::string end;
  };
  using Clients = std::map<JobId, std::vector<Client>>;
  using Told = LatestNews<Clients>::Told;
  // Calls `visit` with each client that a worker of the job has told of.
  template <typename Visit>
  void ForEach(const core::Job& job, const View& view, Visit visit);
  // Whether it is a rank of the present generation, and the worker's.
  static bool Holds(WorkerId worker, const core::Job& job, const Client& client);
  static bool Alive(WorkerId worker, const Told& told, const View& view);

  LatestNews<Clients> news_;
  std::map<WorkerId, Told> told_;
};

}  // namespace dp::server
