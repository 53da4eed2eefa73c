#pragma once

#include <cstdint>
#include <limits>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/core/coordinator.h"
#include "server/driver/journal.h"

namespace dp::server {

// Decides which requests to reject while the journal's disk is nearly full, because a journal that
// cannot be written ends the coordinator. Pure.
struct DiskLimits {
  uint64_t submit_reserve = 0;  // submissions leave this many bytes free
  uint64_t floor = 0;           // large writes to stores leave this many bytes free
  uint64_t job_specs_bytes_max = std::numeric_limits<uint64_t>::max();  // of all jobs on record

  // Bytes that may still be written, including the free ones in the journal's own file. The latter
  // may be left out if the disk has `enough` without them.
  using Room = absl::FunctionRef<uint64_t(uint64_t enough)>;

  // Whether there is room for the request and for `unwritten` bytes of other requests, which are
  // accepted and not written yet. Small writes need only the room that they take.
  // Errors: ResourceExhausted.
  absl::Status CheckSubmit(Room room, const core::SubmitJob& submit, uint64_t unwritten) const;
  absl::Status CheckWrites(Room room, const core::StoreBatch& batch, uint64_t unwritten) const;
  // Errors: ResourceExhausted the specs of jobs that must stay on record leave no room for this
  // one.
  absl::Status CheckSpecs(const core::Coordinator& coordinator,
                          const core::SubmitJob& submit) const;
};

// Whether the submission must wait for the job (`after`). Pure.
bool WaitsFor(const core::SubmitJob& submit, JobId job);

// The approximate size of a snapshot of the state. Pure.
uint64_t SnapshotBytes(const core::Coordinator& coordinator);

// Whether a snapshot may begin: a snapshot that runs out of room ends the coordinator.
bool HasRoomForSnapshot(const core::Coordinator& coordinator, uint64_t room);

// Whether a snapshot would free much of the journal, because most of its records belong to
// forgotten jobs. Such a snapshot is worth its cost only if room is short.
bool SnapshotFreesRoom(const core::Coordinator& coordinator, const JournalTail& tail);

}  // namespace dp::server
