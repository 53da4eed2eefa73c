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

class Digest;

// Which ports the TCPStore endpoints of commands get, and how long each rests after its generation:
// a program of the old one that still runs somewhere must not find the new one's store. Where none
// has rested for so long, as after a thousand short jobs, the one that has longest is taken, if it
// has for `rest_min`: jobs do not wait for a precaution.
struct StorePortRange {
  int first = 29500;
  int last = 30499;
  absl::Duration rest = absl::Minutes(10);
  absl::Duration rest_min = absl::Seconds(10);  // or `rest`, where that is shorter
  // Whether the job could be served at that port now; null: all can. Who says so may keep it for
  // the job from then on, also where a placement is only tried and the job goes on waiting.
  std::function<bool(JobId, int port)> usable = {};

  int size() const { return last - first + 1; }
  absl::Duration least_rest() const { return std::min(rest, rest_min); }
};

// Who holds each port of the TCPStore endpoints, and since when it is free. What the range is and
// how long a port rests is the placement's business (PortSupply), so that a journal replays
// whatever they were. Not thread-safe; owned by the Coordinator.
class StorePorts {
 public:
  static constexpr int kPortMax = 65'535;

  struct Use {
    JobId holder;                                  // not valid: free
    absl::Time free_since = absl::InfinitePast();  // while it is free
  };

  StorePorts() = default;
  // As they were, from uses().
  explicit StorePorts(std::map<int, Use> uses);

  // Precondition: !held(port).
  void Take(int port, JobId job);
  // Precondition: the job holds it.
  void Release(int port, JobId job, absl::Time at);

  bool held(int port) const;
  // Those that were ever held, by number.
  const std::map<int, Use>& uses() const { return uses_; }
  void AddTo(Digest& digest) const;

 private:
  std::map<int, Use> uses_;
};

// The ports of a range, as one round of placement hands them out: the lowest that has rested first,
// then the one that has rested longest. Not thread-safe.
class PortSupply {
 public:
  PortSupply(const StorePorts& ports, const StorePortRange& range, absl::Time now);

  // For the job. None: all are held, rest, or cannot be used.
  std::optional<int> Take(JobId job);
  // After a Take that found none, when there may be one: the next has rested, or is to be looked at
  // again.
  absl::Time next_at() const;
  const StorePortRange& range() const { return range_; }
  // One that it would have handed out was.
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
  std::set<std::pair<absl::Time, int>> resting_;  // that can be taken; by since when they are free
  bool unusable_ = false;
};

}  // namespace dp::core
