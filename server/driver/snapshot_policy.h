#pragma once

#include "server/driver/journal.h"

namespace dp::server {

// When the tail of the journal is long enough for a snapshot. A restart loads the snapshot instead
// of replaying commands, and the replaced commands free their room. The cost is writing the whole
// state. Pure.
struct SnapshotPolicy {
  // Replayed within about 0.1 s.
  uint64_t commands = 20'000;
  // For a tail of few but large commands.
  uint64_t bytes = uint64_t{16} << 20;
  // A large state is not written again for each small tail. Snapshots multiply what is written at
  // most by this factor.
  uint64_t written_again_max = 4;

  bool Due(const JournalTail& tail) const {
    if (tail.commands == 0) return false;
    if (tail.commands < commands && tail.bytes < bytes) return false;
    return tail.bytes >= tail.snapshot_bytes / written_again_max;
  }
};

}  // namespace dp::server
