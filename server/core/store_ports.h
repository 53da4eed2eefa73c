#pragma once

#include <map>
#include <optional>

#include "absl/time/time.h"
#include "base/id.h"

namespace dp::core {

class Digest;

// Which ports the TCPStore endpoints of commands get, and how long each rests after its generation:
// a program of the old one that still runs somewhere must not find the new one's store.
struct StorePortRange {
  int first = 29500;
  int last = 30499;
  absl::Duration rest = absl::Minutes(10);

  int size() const { return last - first + 1; }
};

// Who holds each port of the TCPStore endpoints, and since when it is free. What the range is and
// how long a port rests is the placement's business (Candidates), so that a journal replays
// whatever they were. Not thread-safe; owned by the Coordinator.
class StorePorts {
 public:
  static constexpr int kPortMax = 65'535;

  struct Use {
    JobId holder;                                  // not valid: free
    absl::Time free_since = absl::InfinitePast();  // while it is free
  };

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

// The ports of a range, as one round of placement hands them out: the lowest first. Not
// thread-safe.
class PortSupply {
 public:
  PortSupply(const StorePorts& ports, const StorePortRange& range, absl::Time now)
      : ports_(ports), range_(range), now_(now), next_(range.first) {}

  // None: all are held or rest.
  std::optional<int> Take();
  // When the next one has rested; InfiniteFuture where all are held.
  absl::Time next_at() const;
  const StorePortRange& range() const { return range_; }

 private:
  const StorePorts& ports_;
  const StorePortRange range_;
  const absl::Time now_;
  int next_;
};

}  // namespace dp::core
