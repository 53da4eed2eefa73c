#pragma once

#include <cstdint>

namespace dp::server {

// Limits on the file system of the data directory, where no flag sets them
// (docs/coordinator-shell.md, Disk). Fractions of the disk, so that the defaults fit small volumes;
// each has a bound, so that a large disk is not filled without need.
struct DiskShares {
  uint64_t logs_bytes_max;      // of all jobs
  uint64_t job_logs_bytes_max;  // of one job, so that one job does not push out all others
  uint64_t log_disk_reserve;    // logs leave so much free
  // Submissions are refused below it. It is smaller than log_disk_reserve, so that logs stop first,
  // and larger than the ballast, so that a disk that has just the ballast takes no job.
  uint64_t submit_reserve;
  // The specs of all jobs on record. The journal holds them up to three times: in the last
  // snapshot, in the commands since, and in the snapshot that is being written.
  uint64_t job_specs_bytes_max;
  // The file that is given up when the disk is full. A start moves the write-ahead log, usually
  // 4 MiB, into the journal, and appends a little.
  uint64_t ballast_bytes;
  // Large writes to stores are refused below it: half of the ballast. The rest of the ballast is
  // for small commands: placing, cancelling, ending.
  uint64_t floor;
};

// `disk_bytes`: the size of the file system. Pure.
DiskShares SharesOf(uint64_t disk_bytes);

}  // namespace dp::server
