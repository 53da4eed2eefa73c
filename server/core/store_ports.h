#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/time/time.h"
#include "base/id.h"

namespace dp::core {

// Which ports the TCPStore endpoints of command jobs get, and how long a port rests after its
// generation. A program of the old generation that still runs must not find the new one's store. If
// no port has rested long enough, as after a thousand short jobs, the placement takes the one that
// has rested longest, at least `rest_min`. The rest is a precaution, so jobs do not wait for all of
// it.
struct StorePortRange {
  int first = 29500;
  int last = 30499;
  absl::Duration rest = absl::Minutes(10);
  absl::Duration rest_min = absl::Seconds(10);  // or `rest`, if shorter
  // Whether the job could be served at that port now; null: all ports can. The function may reserve
  // a port that it approves, even if the placement was only a trial and the job goes on waiting.
  std::function<bool(JobId, int port)> usable = {};

  int size() const { return last - first + 1; }
  absl::Duration least_rest() const { return std::min(rest, rest_min); }
};

// The holder of each port of the TCPStore endpoints, and since when a port is free. The range and
// the rest belong to the placement (PortSupply), so a journal replays whatever they were. Not
// thread-safe; owned by the Coordinator.
class StorePorts {
 public:
  static constexpr int kPortMax = 65'535;

  struct Use {
    JobId holder;                                  // not valid: free
    absl::Time free_since = absl::InfinitePast();  // while it is free
  };

  StorePorts() = default;
  // Restores the ports from uses().
  explicit StorePorts(std::map<int, Use> uses);

  // Precondition: !held(port).
  void Take(int port, JobId job);
  // Precondition: the job holds it.
  void Release(int port, JobId job, absl::Time at);

  bool held(int port) const;
  // All ports that were ever held, by number.
  const std::map<int, Use>& uses() const { return uses_; }

 private:
  std::map<int, Use> uses_;
};

// The ports of a range as one round of placement hands them out. The lowest port that has rested
// goes first, then the one that has rested longest. Not thread-safe.
class PortSupply {
 public:
  PortSupply(const StorePorts& ports, const StorePortRange& range, absl::Time now);

  // Takes a port for the job. None if all are held, resting or unusable.
  std::optional<int> Take(JobId job);
  // After a Take that found none: when to try again. By then the next port has rested, or may have
  // become usable.
  absl::Time next_at() const;
  const StorePortRange& range() const { return range_; }
  // Whether Take has skipped a port that was not usable.
  bool some_unusable() const { return unusable_; }

 private:
  std::optional<int> TakeRested(JobId job);
  std::optional<int> TakeResting(JobId job);
  bool Usable(JobId job, int port);
  bool rested(int port) const;

  const StorePorts& ports_;
  const StorePortRange range_;
  const absl::Time now_;
  int next_;
  std::set<std::pair<absl::Time, int>> resting_;  // not held and not yet rested; by free_since
  bool unusable_ = false;
};

}  // namespace dp::core
