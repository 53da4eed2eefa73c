#include "server/callers/client_table.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/limits.h"

namespace dp::server {

void ClientTable::Report(WorkerId worker, Incarnation incarnation,
                         const v1::StoreClients& clients) {
  Clients by_job;
  const int taken = std::min(clients.clients_size(), static_cast<int>(kStoreClientsMax));
  for (int i = 0; i < taken; ++i) {
    const v1::StoreClient& client = clients.clients(i);
    if (client.end().size() > kSocketEndBytesMax) continue;
    by_job[JobId(client.job())].push_back(
        {Generation(client.generation()), client.rank(), client.end()});
  }
  news_.Put(worker, incarnation, std::move(by_job));
}

void ClientTable::TakeNews(const View& view) {
  // Leaves at most one report per worker.
  std::erase_if(told_, [&view](const auto& each) { return !Alive(each.first, each.second, view); });
  for (auto& [worker, told] : news_.Take()) {
    if (Alive(worker, told, view)) told_[worker] = std::move(told);
  }
}

template <typename Visit>
void ClientTable::ForEach(const core::Job& job, const View& view, Visit visit) {
  TakeNews(view);
  for (const auto& [worker, told] : told_) {
    const auto of_job = told.news.find(job.id);
    if (of_job == told.news.end()) continue;
    for (const Client& client : of_job->second) {
      if (Holds(worker, job, client)) visit(client);
    }
  }
}

std::set<int> ClientTable::Connected(const core::Job& job, const View& view) {
  std::set<int> ranks;
  ForEach(job, view, [&ranks](const Client& client) { ranks.insert(client.rank); });
  return ranks;
}

std::map<std::string, int> ClientTable::Of(const core::Job& job, const View& view) {
  std::map<std::string, int> ranks;
  std::set<std::string> disputed;
  ForEach(job, view, [&](const Client& client) {
    const auto [at, is_new] = ranks.emplace(client.end, client.rank);
    if (!is_new && at->second != client.rank) disputed.insert(client.end);
  });
  for (const std::string& end : disputed) ranks.erase(end);
  return ranks;
}

bool ClientTable::Holds(WorkerId worker, const core::Job& job, const Client& client) {
  return client.generation == job.generation && client.rank >= 0 &&
         client.rank < static_cast<int>(job.ranks.size()) &&
         job.ranks[client.rank].worker_id == worker;
}

// An incarnation that has ended has no connections.
bool ClientTable::Alive(WorkerId worker, const Told& told, const View& view) {
  const core::Worker* known = view.coordinator.worker(worker);
  return known != nullptr && known->ready() && known->incarnation == told.by;
}

}  // namespace dp::server
