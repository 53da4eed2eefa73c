#pragma once

#include <cstdint>
#include <limits>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/core/coordinator.h"
#include "server/shell/journal.h"

namespace dp::server {

// Decides which requests to refuse while the journal's disk is nearly full. A journal that cannot
// be written ends the coordinator. Pure.
struct DiskLimits {
  uint64_t submit_reserve = 0;  // submissions leave so much room
  uint64_t floor = 0;           // large writes to stores leave so much room
  uint64_t job_specs_bytes_max = std::numeric_limits<uint64_t>::max();  // of all jobs on record

  // Bytes that may still be written, those in the journal's own file included. These may be left
  // out where the disk has `enough` without them.
  using Room = absl::FunctionRef<uint64_t(uint64_t enough)>;

  // Whether there is room for the request and for `unwritten` bytes of others, which have been
  // accepted and are not written yet. Small writes need no more room than they take.
  // Errors: ResourceExhausted.
  absl::Status CheckSubmit(Room room, const core::SubmitJob& submit, uint64_t unwritten) const;
  absl::Status CheckWrites(Room room, const core::StoreBatch& batch, uint64_t unwritten) const;
  // Errors: ResourceExhausted: the specs of jobs that must stay on record leave no room for this
  // one.
  absl::Status CheckSpecs(const core::Coordinator& coordinator,
                          const core::SubmitJob& submit) const;
};

// Whether the submission names the job as one to wait for. Pure.
bool WaitsFor(const core::SubmitJob& submit, JobId job);

// About how many bytes a snapshot of the state would take. Pure.
uint64_t SnapshotBytes(const core::Coordinator& coordinator);

// Whether a snapshot may be begun: one that finds no room on the way ends the coordinator.
bool HasRoomForSnapshot(const core::Coordinator& coordinator, uint64_t room);

// Whether a snapshot would free much of the journal, because most of its records are of jobs that
// are forgotten. Such a snapshot is worth its cost only where room is short.
bool SnapshotFreesRoom(const core::Coordinator& coordinator, const JournalTail& tail);

}  // namespace dp::server
