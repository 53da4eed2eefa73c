#include "server/connections/open_connections.h"

#include "base/check.h"

namespace dp::server {

bool OpenConnections::HasRoom(const std::string& host, absl::Time now,
                              absl::FunctionRef<bool(int)> is_open) {
  const auto known = hosts_.find(host);
  if (known == hosts_.end() || known->second.connections.size() < of_host_max_) return true;
  if (now - known->second.counted_at < kCountEvery) return false;
  known->second.counted_at = now;
  std::vector<int> closed;
  for (const int connection : known->second.connections) {
    if (!is_open(connection)) closed.push_back(connection);
  }
  for (const int connection : closed) Remove(connection);
  return !closed.empty();
}

void OpenConnections::Add(const std::string& host, int connection) {
  DP_CHECK(host_of_.emplace(connection, host).second);
  hosts_[host].connections.insert(connection);
}

void OpenConnections::Remove(int connection) {
  const auto known = host_of_.find(connection);
  if (known == host_of_.end()) return;
  const auto host = hosts_.find(known->second);
  host->second.connections.erase(connection);
  if (host->second.connections.empty()) hosts_.erase(host);
  host_of_.erase(known);
}

}  // namespace dp::server
