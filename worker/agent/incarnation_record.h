#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/id.h"

namespace dp::worker {

// Which incarnations the daemons of one state directory have registered, oldest first, in the file
// STATE_DIR/incarnations (mode 0600: whoever knows an incarnation can act as its daemon). The lock
// of the directory proves to the next daemon that theirs are dead. That holds within one boot of
// one kernel only: elsewhere the lock may be another one, as on a network file system or a volume
// that was moved. So entries of another boot are ignored. The file need not survive a crash of the
// host, for the same reason. Not thread-safe; owned by main, used by the agent.
class IncarnationRecord {
 public:
  // A bound on the file and on `replaces`. Every start adds one incarnation, registered or not, so
  // a daemon that restarts more often than this while the coordinator is away loses the oldest
  // entries, whose leases must then expire.
  static constexpr size_t kKept = 64;

  // Reads what is there; a file that cannot be read counts as empty. `boot_id` names this boot of
  // this kernel; empty: not known, then nothing is proven and nothing is recorded.
  IncarnationRecord(const std::string& state_dir, std::string boot_id);

  // All that were recorded so far.
  const std::vector<Incarnation>& recorded() const { return recorded_; }
  // Call it before the incarnation is registered. Errors: Internal names the path and the reason;
  // the next daemon then has to wait for the end of the lease.
  absl::Status Add(Incarnation incarnation);

 private:
  const std::string state_dir_;
  const std::string boot_id_;
  std::vector<Incarnation> recorded_;
};

// /proc/sys/kernel/random/boot_id; empty where the kernel has none.
std::string BootId();

}  // namespace dp::worker
