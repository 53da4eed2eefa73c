#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/id.h"

namespace dp::worker {

// The incarnations that the daemons of one state directory registered, oldest first, in
// STATE_DIR/incarnations. Its mode is 0600: whoever knows an incarnation can act as its daemon. The
// directory's lock proves to the next daemon that the recorded daemons are dead. The proof holds
// within one boot of one kernel only. Elsewhere the lock may be a different one, as on a network
// file system or a volume that was moved. Entries of another boot are therefore ignored, and the
// file need not survive a crash of the host. Not thread-safe; owned by main, used by the agent.
class IncarnationRecord {
 public:
  // Bounds the file and `replaces`. Every start adds one incarnation, registered or not. A daemon
  // that restarts more often than this while the coordinator is away loses the oldest entries.
  // Their leases must then expire.
  static constexpr size_t kKept = 64;

  // Reads the file; an unreadable file counts as empty. `boot_id` names this boot of this kernel.
  // If it is empty (unknown), nothing is proven and nothing is recorded.
  IncarnationRecord(const std::string& state_dir, std::string boot_id);

  // All entries, the latest Add included.
  const std::vector<Incarnation>& recorded() const { return recorded_; }
  // Call before the incarnation is registered. Errors: Internal names the path and the reason; the
  // next daemon must then wait for the lease to expire.
  absl::Status Add(Incarnation incarnation);

 private:
  const std::string state_dir_;
  const std::string boot_id_;
  std::vector<Incarnation> recorded_;
};

// /proc/sys/kernel/random/boot_id; empty if the kernel has none.
std::string BootId();

}  // namespace dp::worker
