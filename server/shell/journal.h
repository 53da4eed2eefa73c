#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/core/command.h"
#include "server/core/state.h"

namespace dp::server {

// What a restart would have to replay.
struct JournalTail {
  uint64_t commands = 0;  // since the last snapshot
  uint64_t bytes = 0;     // of their records
  uint64_t snapshot_bytes = 0;

  bool operator==(const JournalTail&) const = default;
};

// The list of commands that made the coordinator's state, kept so that no crash undoes what was
// acknowledged; its beginning may be replaced by a snapshot, the state that it had led to. Not
// thread-safe; used by the driver alone.
class Journal {
 public:
  using Restore = absl::FunctionRef<void(core::State)>;
  using Apply = absl::FunctionRef<void(const core::Command&)>;

  virtual ~Journal() = default;

  // Hands the last snapshot to `restore`, where there is one, then every command after it to
  // `apply`, oldest first. Called once, before the first Append.
  // Errors: DataLoss names the damaged record or piece; Internal the storage.
  virtual absl::Status Replay(Restore restore, Apply apply) = 0;

  // Adds the commands, all or none, and returns once they would survive a crash of the machine.
  // After an error the journal is not to be used again: what reached the disk is not known.
  // Errors: ResourceExhausted, Internal, or whatever the storage has.
  virtual absl::Status Append(absl::Span<const core::Command> commands) = 0;

  // Begins a snapshot of the state that the commands appended so far have led to, in memory: it is
  // Maintain that writes it. A crash before all of it is written leaves the journal without this
  // snapshot, and loses nothing. Precondition: !compacting().
  virtual void TakeSnapshot(const core::State& state) = 0;
  // Work that nobody waits for, a share at a time, so that the next Append does not wait long: to
  // be called after every batch, and again at once while compacting(). Errors: as Append.
  virtual absl::Status Maintain() = 0;
  // A snapshot is not yet written, or what it replaces not yet dropped.
  virtual bool compacting() const = 0;
  virtual JournalTail tail() const = 0;
  // Room in its file that it has and does not use: what it writes goes there first.
  virtual uint64_t spare_bytes() { return 0; }
};

}  // namespace dp::server
