#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/id.h"
#include "dp/v1/workers.pb.h"
#include "server/shell/driver.h"

namespace dp::server {

// Whose connections to stores are whose, as daemons told last. For people, and never decided upon,
// so it is in no journal: a coordinator that was restarted hears it anew. Used on the driver's
// thread only.
class ClientTable {
 public:
  // Told by a heartbeat that the worker was entitled to, all it knows. Keeps a bounded part of it.
  void Take(WorkerId worker, Incarnation incarnation, const v1::StoreClients& clients,
            const View& view);
  // The ranks of the job's present generation by their ends of connections, as told by the workers
  // that have them; two that are said to have the same one are not among them.
  std::map<std::string, int> Of(const core::Job& job, const View& view) const;
  // Its ranks that have a connection.
  std::set<int> Connected(const core::Job& job, const View& view) const;

 private:
  struct Client {
    Generation generation;
    int rank = 0;
    std::string end;
  };
  struct Told {
    Incarnation by;
    std::map<JobId, std::vector<Client>> clients;
  };
  // Calls `visit` with each client that a worker of the job has told of.
  template <typename Visit>
  void ForEach(const core::Job& job, const View& view, Visit visit) const;
  // Whether it is a rank of the present generation, and the worker's.
  static bool Holds(WorkerId worker, const core::Job& job, const Client& client);
  static bool Alive(WorkerId worker, const Told& told, const View& view);

  std::map<WorkerId, Told> told_;
};

}  // namespace dp::server
