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

// Default limits on the file system of the data directory, for limits that no flag sets
// (docs/coordinator-process.md, Disk). Each limit is a fraction of the disk, so that it fits small
// volumes. Each has a bound, so that a large disk is not filled without need.
struct DiskShares {
  uint64_t logs_bytes_max;      // of all jobs
  uint64_t job_logs_bytes_max;  // of one job, so that one job does not push out all others
  uint64_t log_disk_reserve;    // logs leave this much free
  // Submissions are rejected if less is free. Smaller than log_disk_reserve, so that logs stop
  // first. Larger than the ballast, so that a disk that has just the ballast takes no job.
  uint64_t submit_reserve;
  // The specs of all jobs on record. The journal holds them up to three times: in the last
  // snapshot, in the commands since, and in the snapshot that is being written.
  uint64_t job_specs_bytes_max;
  // The file that is removed when the disk is full. A start moves the write-ahead log, usually 4
  // MiB, into the journal, and appends a little.
  uint64_t ballast_bytes;
  // Large writes to stores are rejected if less is free: half of the ballast. The rest of the
  // ballast is for small commands: placing, cancelling, ending.
  uint64_t floor;
};

// `disk_bytes`: the size of the file system. Pure.
DiskShares SharesOf(uint64_t disk_bytes);

}  // namespace dp::server
