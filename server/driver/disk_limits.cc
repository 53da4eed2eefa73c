#include "server/driver/disk_limits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "store/operation.h"
#include "store/operation_bytes.h"

namespace dp::server {
namespace {

// Estimates of a job's size besides its spec, and of all state that is no job. They are generous,
// since most jobs are small.
constexpr uint64_t kJobBytes = 1024;
constexpr uint64_t kOtherBytes = uint64_t{1} << 20;

// Addresses by which ranks meet and counters are smaller, so jobs that run go on with these.
constexpr uint64_t kSmallWrites = 1024;

// A record goes to the write-ahead log, and from there into the database.
constexpr uint64_t kCopies = 2;

uint64_t BytesWritten(const core::StoreBatch& batch) {
  uint64_t bytes = 0;
  for (const StoreOperation& operation : batch.operations) {
    if (!IsRead(operation)) bytes += dp::BytesOf(operation);
  }
  return bytes;
}

// A relay's batch holds the calls of many ranks, one per group.
bool IsSmall(const core::StoreBatch& batch, uint64_t bytes) {
  return bytes <= kSmallWrites * std::max<uint64_t>(1, batch.groups.size());
}

absl::Status Check(DiskLimits::Room room, uint64_t wanted, const char* what,
                   const char* flag = "") {
  const uint64_t there = room(wanted);
  if (there >= wanted) return absl::OkStatus();
  const auto mib = [](uint64_t bytes) { return bytes >> 20; };
  return absl::ResourceExhaustedError(absl::StrCat(
      "the file system of --data-dir has ", mib(there), " MiB left; dp-coordinator takes ", what,
      " only above ", mib(wanted - 1) + 1, " MiB", flag, "; free space there"));
}

}  // namespace

absl::Status DiskLimits::CheckSubmit(Room room, const core::SubmitJob& submit,
                                     uint64_t unwritten) const {
  const uint64_t bytes = unwritten + submit.spec_bytes();
  return Check(room, submit_reserve + kCopies * bytes, "this job", " (--disk-reserve)");
}

absl::Status DiskLimits::CheckWrites(Room room, const core::StoreBatch& batch,
                                     uint64_t unwritten) const {
  const uint64_t bytes = BytesWritten(batch);
  if (bytes == 0) return absl::OkStatus();
  const uint64_t left = IsSmall(batch, bytes) ? 0 : floor;
  return Check(room, left + kCopies * (unwritten + bytes), "these keys and values of a store");
}

bool WaitsFor(const core::SubmitJob& submit, JobId job) {
  const auto& after = submit.spec.scheduling.after;
  return std::any_of(after.begin(), after.end(), [job](auto& each) { return each.job == job; });
}

absl::Status DiskLimits::CheckSpecs(const core::Coordinator& coordinator,
                                    const core::SubmitJob& submit) const {
  const uint64_t bytes = submit.spec_bytes();
  uint64_t held = 0;
  for (const core::Job* job : coordinator.jobs()) {
    if (!job->terminal() || WaitsFor(submit, job->id)) held += job->spec_bytes();
  }
  if (held + bytes <= job_specs_bytes_max) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the specs of jobs that are unfinished or named in after hold ", held,
      " bytes, this one has ", bytes, ", and all may hold ", job_specs_bytes_max,
      "; wait for jobs to end, cancel some, or raise dp-coordinator --job-specs-bytes-max"));
}

uint64_t SnapshotBytes(const core::Coordinator& coordinator) {
  uint64_t bytes = kOtherBytes + coordinator.state().jobs.spec_bytes();
  for (const core::Job* job : coordinator.jobs()) {
    bytes += kJobBytes;
    const auto store = coordinator.store(job->id, job->generation);
    if (store.ok()) bytes += (*store)->bytes();
  }
  return bytes;
}

bool HasRoomForSnapshot(const core::Coordinator& coordinator, uint64_t room) {
  // The snapshot's pages go through the write-ahead log, a share at a time.
  return room >= SnapshotBytes(coordinator) + 8 * kOtherBytes;
}

bool SnapshotFreesRoom(const core::Coordinator& coordinator, const JournalTail& tail) {
  return tail.snapshot_bytes + tail.bytes > 2 * SnapshotBytes(coordinator);
}

}  // namespace dp::server
