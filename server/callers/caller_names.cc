#include "server/callers/caller_names.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "base/host_port.h"

namespace dp::server {

std::optional<int> CallerNames::rank_at(const std::string& peer) const {
  const auto rank = ranks_.find(peer);
  return rank == ranks_.end() ? std::nullopt : std::optional(rank->second);
}

std::string CallerNames::who(const BlockedCall& call) const {
  if (call.peer.empty()) return call.who;
  if (const std::optional<int> rank = rank_at(call.peer); rank.has_value()) {
    return absl::StrCat("rank ", *rank, " on ", job_.ranks.at(*rank).worker);
  }
  const std::string worker = WorkerAt(call.peer);
  return worker.empty() ? call.who : absl::StrCat("a rank on ", worker);
}

std::string CallerNames::WorkerAt(const std::string& peer) const {
  const auto address = ParseHostPort(peer);
  if (!address.ok()) return "";
  std::set<std::string> workers;
  for (const core::Rank& rank : job_.ranks) {
    if (rank.address == address->host) workers.insert(rank.worker);
  }
  return workers.size() == 1 ? *workers.begin() : "";
}

}  // namespace dp::server
