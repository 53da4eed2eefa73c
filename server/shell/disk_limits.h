#pragma once

#include <cstdint>
#include <functional>
#include <limits>

#include "absl/status/status.h"
#include "server/core/coordinator.h"
#include "server/shell/journal.h"

namespace dp::server {

// Decides which requests to refuse while the journal's disk is nearly full. A journal that cannot
// be written ends the coordinator. Pure.
struct DiskLimits {
  uint64_t submit_reserve = 0;  // submissions, while there is less room than this
  uint64_t floor = 0;           // large values for stores, likewise
  uint64_t job_specs_bytes_max = std::numeric_limits<uint64_t>::max();  // of all jobs on record

  // `room`: bytes that may still be written, those in the journal's own file included.
  // Errors: ResourceExhausted.
  absl::Status CheckSubmit(uint64_t room) const;
  absl::Status CheckValues(uint64_t room) const;
  // Errors: ResourceExhausted: the specs of unfinished jobs leave no room for one of `bytes`.
  absl::Status CheckSpecs(const core::Coordinator& coordinator, uint64_t bytes) const;
};

// Whether the batch brings more than what ranks need to meet, and counters. Pure.
bool HasLargeValues(const core::StoreBatch& batch);

// About what a snapshot of the state would take. Pure.
uint64_t SnapshotBytes(const core::Coordinator& coordinator);

// Whether a snapshot may be begun: one that finds no room on the way ends the coordinator.
bool HasRoomForSnapshot(const core::Coordinator& coordinator, uint64_t room);

// Whether a snapshot would free much of the journal: most of what it holds is of jobs that are
// forgotten. Worth it only where room is short.
bool SnapshotFreesRoom(const core::Coordinator& coordinator, const JournalTail& tail);

}  // namespace dp::server
