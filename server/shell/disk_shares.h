#pragma once

#include <cstdint>

namespace dp::server {

// What the coordinator may take of the file system that holds its data directory, where no flag
// says otherwise (docs/coordinator-shell.md, Disk). Shares, so that a small volume is not promised
// what it does not have; each has a bound, so that a large one is not taken for no reason.
struct DiskShares {
  // Logs of all jobs: half, 64 GiB at most.
  uint64_t logs_bytes_max;
  // Logs of one job: an eighth, 1 GiB at most, so that one job does not push out all others.
  uint64_t job_logs_bytes_max;
  // What logs leave free: a sixteenth, 24 MiB at least and 1 GiB at most.
  uint64_t log_disk_reserve;
  // Submissions are refused below it: half of that. So logs stop first, and a disk that has
  // just the ballast takes no job.
  uint64_t submit_reserve;
  // The specs of all jobs on record: an eighth, 256 MiB at most. The journal holds them up to three
  // times: in the last snapshot, in the commands since, and in the snapshot that is being written.
  uint64_t job_specs_bytes_max;
  // The file that is given up when the disk is full: a sixty-fourth, 8 MiB at least and 32 MiB at
  // most. A start moves the write-ahead log, usually 4 MiB, into the journal, and appends a little.
  uint64_t ballast_bytes;
  // Large values for stores are refused below it: half of the ballast. The rest of the ballast is
  // for small commands: placing, cancelling, ending.
  uint64_t floor;
};

// `disk_bytes`: the size of the file system. Pure.
DiskShares SharesOf(uint64_t disk_bytes);

}  // namespace dp::server
