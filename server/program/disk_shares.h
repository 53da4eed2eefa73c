#pragma once

#include <cstdint>

namespace dp::server {

// Default limits on the file system of the data directory, for limits that no flag sets
// (docs/coordinator-process.md, Disk). Each limit is a fraction of the disk, so that it fits small
// volumes. Each has a bound, so that a large disk is not filled without need.
struct DiskShares {
  uint64_t logs_bytes_max;        // of all jobs
  uint64_t job_logs_bytes_max;    // of one job, so that one job does not push out all others
  uint64_t parameters_bytes_max;  // of all sets of parameters
  uint64_t log_disk_reserve;      // logs and parameters leave this much free
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
