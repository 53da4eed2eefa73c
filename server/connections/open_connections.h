#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace dp::server {

// How many connections each host has open, of those that gRPC serves. gRPC does not say when it
// closes one, so a host at its limit is counted anew: the caller can tell which are still open.
//
// Connections are numbers of the caller, and are used again. Pure: time is an argument. Not
// thread-safe.
class OpenConnections {
 public:
  // How often a host at its limit is counted anew, however often it connects.
  static constexpr absl::Duration kCountEvery = absl::Milliseconds(100);

  explicit OpenConnections(size_t of_host_max) : of_host_max_(of_host_max) {}

  // Whether the host may open another connection. Forgets those that are not open any more.
  bool HasRoom(const std::string& host, absl::Time now, absl::FunctionRef<bool(int)> is_open);
  void Add(const std::string& host, int connection);
  // Without effect on one that is not on record.
  void Remove(int connection);
  // With their hosts.
  const absl::flat_hash_map<int, std::string>& All() const { return host_of_; }

  size_t size() const { return host_of_.size(); }

 private:
  struct Host {
    absl::flat_hash_set<int> connections;  // never empty
    absl::Time counted_at = absl::InfinitePast();
  };

  const size_t of_host_max_;
  absl::flat_hash_map<int, std::string> host_of_;
  absl::flat_hash_map<std::string, Host> hosts_;
};

}  // namespace dp::server
