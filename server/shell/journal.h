#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/core/command.h"

namespace dp::server {

// The list of commands that made the coordinator's state, kept so that no crash undoes what was
// acknowledged. Not thread-safe; used by the driver alone.
class Journal {
 public:
  virtual ~Journal() = default;

  // Hands every command to `apply`, oldest first. Called once, before the first Append.
  // Errors: DataLoss names the damaged record; Internal the storage.
  virtual absl::Status Replay(absl::FunctionRef<void(const core::Command&)> apply) = 0;

  // Adds the commands, all or none, and returns once they would survive a crash of the machine.
  // After an error the journal is not to be used again: what reached the disk is not known.
  // Errors: ResourceExhausted, Internal, or whatever the storage has.
  virtual absl::Status Append(absl::Span<const core::Command> commands) = 0;
};

}  // namespace dp::server
