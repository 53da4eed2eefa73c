#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace dp::server {

// In which order, and how fast, connections begin their TLS handshakes. A handshake costs more than
// a millisecond of processor time. If thousands began at once, as after a restart, all would end
// late, and heartbeats would wait behind them. Clients would give up and begin again.
//
// Hosts take turns, so one that connects without end delays the others by one handshake each.
// Connections are numbers of the caller. Pure: time is an argument, and never goes back. Not
// thread-safe.
class HandshakeTurns {
 public:
  struct Limits {
    double per_second = 200;  // on one processor of a server
    double at_once = 32;
    size_t of_host = 4'096;  // connections that wait; more are rejected
    size_t all = 16'384;
    absl::Duration patience = absl::Seconds(10);  // a client has given up by then
  };

  explicit HandshakeTurns(const Limits& limits) : limits_(limits), left_(limits.at_once) {}

  // Lets a connection wait for its turn. Returns false if too many wait.
  bool Add(const std::string& host, int connection, absl::Time now);
  // The connection whose turn it is, of a host that may begin now. Absent: there is none, or the
  // rate is used up until next_at.
  std::optional<int> Take(absl::Time now,
                          absl::FunctionRef<bool(const std::string& host)> may_begin = EveryHost);
  // Connections that have waited for longer than clients do; they wait no more.
  std::vector<int> TakeOverdue(absl::Time now);

  bool empty() const { return waiting_ == 0; }
  // When Take has something to return next, if a host may begin. Precondition: !empty().
  absl::Time next_at(absl::Time now) const;

 private:
  struct Waiting {
    int connection = 0;
    absl::Time since;
  };
  struct Host {
    std::string name;
    std::deque<Waiting> waiting;  // never empty
  };

  static bool EveryHost(const std::string&) { return true; }
  void Refill(absl::Time now);

  const Limits limits_;
  double left_;
  absl::Time refilled_at_ = absl::InfinitePast();
  size_t waiting_ = 0;
  std::list<Host> turns_;  // the host whose turn it is, first
  absl::flat_hash_map<std::string, std::list<Host>::iterator> by_name_;
};

}  // namespace dp::server
