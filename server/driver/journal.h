#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/core/command.h"
#include "server/core/state.h"

namespace dp::server {

// The size of what a restart would have to replay.
struct JournalTail {
  uint64_t commands = 0;  // since the last snapshot
  uint64_t bytes = 0;     // of their records
  uint64_t snapshot_bytes = 0;

  bool operator==(const JournalTail&) const = default;
};

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

// The list of commands that made the coordinator's state, kept so that no crash undoes an
// acknowledged command. A snapshot of the state that they led to may replace the first commands.
// Not thread-safe; used by the driver alone.
class Journal {
 public:
  using Restore = absl::FunctionRef<void(core::State)>;
  using Apply = absl::FunctionRef<void(const core::Command&)>;

  virtual ~Journal() = default;

  // Passes the last snapshot, if there is one, to `restore`, then every later command to `apply`,
  // oldest first. Called once, before the first Append.
  // Errors: DataLoss names the damaged record or piece; Internal the storage failed.
  virtual absl::Status Replay(Restore restore, Apply apply) = 0;

  // Adds the commands, all or none, and returns once they would survive a crash of the machine.
  // After an error the journal must not be used again, because it is unknown what reached the disk.
  // Errors: ResourceExhausted, Internal, or those of the storage.
  virtual absl::Status Append(absl::Span<const core::Command> commands) = 0;

  // Begins a snapshot, in memory, of the state that the appended commands have led to; Maintain
  // writes it. A crash before all of it is written leaves the journal without this snapshot, and
  // loses nothing. Precondition: !compacting().
  virtual void TakeSnapshot(const core::State& state) = 0;
  // Does work that no call waits for, a share at a time, so that the next Append does not wait
  // long. Called after every batch, and again at once while compacting(). Errors: as Append.
  virtual absl::Status Maintain() = 0;
  // True while a snapshot is not fully written, or what it replaces is not fully dropped.
  virtual bool compacting() const = 0;
  virtual JournalTail tail() const = 0;
  // Unused room in the journal's own file, which the next writes take first.
  virtual uint64_t spare_bytes() { return 0; }
  // Bytes that the journal will still take on its disk for what was appended already.
  virtual uint64_t backlog_bytes() const { return 0; }
};

}  // namespace dp::server
