#pragma once

#include "server/shell/journal.h"

namespace dp::server {

// When the tail of the journal is long enough for a snapshot. A snapshot pays twice: a restart
// loads it instead of replaying, and the commands that it replaces free their room; it costs
// writing the whole state. Pure.
struct SnapshotPolicy {
  // Replayed within 0.1 s or so.
  uint64_t commands = 20'000;
  // A tail of few but large commands.
  uint64_t bytes = uint64_t{16} << 20;
  // A large state is not written again for each small tail: snapshots at most multiply what is
  // written by so much.
  uint64_t written_again_max = 4;

  bool Due(const JournalTail& tail) const {
    if (tail.commands == 0) return false;
    if (tail.commands < commands && tail.bytes < bytes) return false;
    return tail.bytes >= tail.snapshot_bytes / written_again_max;
  }
};

}  // namespace dp::server
