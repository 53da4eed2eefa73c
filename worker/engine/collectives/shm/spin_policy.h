#pragma once

#include "absl/time/time.h"

namespace dp::engine {

// How long a rank that waits for a peer spins before it sleeps. A sleep and a wake cost some tens
// of microseconds, so spinning pays where waits are shorter. It costs others their processor where
// waits are long, or where ranks outnumber cores. The policy therefore follows the latest waits:
// while they are long, no wait spins at all. Pure: the caller measures. Not thread-safe.
class SpinPolicy {
 public:
  // `cores` that this process may use, for `ranks` on its host.
  SpinPolicy(int cores, int ranks);

  // How long the next wait may spin.
  absl::Duration budget() const;
  // A wait has ended after `waited`, spinning and sleeping together.
  void Ended(absl::Duration waited);

 private:
  const absl::Duration spin_max_;
  absl::Duration typical_;  // of the waits of late
};

}  // namespace dp::engine
