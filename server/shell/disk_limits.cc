#include "server/shell/disk_limits.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "base/overloaded.h"

namespace dp::server {
namespace {

// Of a job besides its spec, and of everything else: generous, since most jobs are small.
constexpr uint64_t kJobBytes = 1024;
constexpr uint64_t kOtherBytes = uint64_t{1} << 20;

// Addresses, by which ranks meet, and counters are smaller: jobs that run go on with these.
constexpr uint64_t kSmallValues = 1024;

uint64_t BytesOfValues(const core::StoreBatch& batch) {
  uint64_t bytes = 0;
  for (const StoreOperation& operation : batch.operations) {
    bytes += std::visit(Overloaded{[](const StoreCompareSet& set) { return set.desired.size(); },
                                   []([[maybe_unused]] const auto& other) -> size_t {
                                     if constexpr (requires { other.value; }) {
                                       return other.value.size();
                                     }
                                     return 0;
                                   }},
                        operation);
  }
  return bytes;
}

absl::Status TooLittleRoom(uint64_t room, uint64_t wanted, const char* what) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the coordinator's disk has ", room >> 20, " MiB left and ", what, " only while it has ",
      wanted >> 20, " MiB; make room on the disk of --data-dir, or cancel jobs that wait"));
}

}  // namespace

absl::Status DiskLimits::CheckSubmit(uint64_t room) const {
  return room >= submit_reserve ? absl::OkStatus()
                                : TooLittleRoom(room, submit_reserve, "takes jobs");
}

absl::Status DiskLimits::CheckValues(uint64_t room) const {
  return room >= floor ? absl::OkStatus() : TooLittleRoom(room, floor, "takes large values");
}

bool HasLargeValues(const core::StoreBatch& batch) { return BytesOfValues(batch) > kSmallValues; }

absl::Status DiskLimits::CheckSpecs(const core::Coordinator& coordinator, uint64_t bytes) const {
  uint64_t held = 0;
  for (const core::Job* job : coordinator.unfinished_jobs()) held += job->spec.payload.size();
  if (held + bytes <= job_specs_bytes_max) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the specs of unfinished jobs hold ", held, " bytes, this one has ", bytes,
      ", and all may hold ", job_specs_bytes_max,
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
  // Its pages go through the write-ahead log, a share at a time.
  return room >= SnapshotBytes(coordinator) + 8 * kOtherBytes;
}

bool SnapshotFreesRoom(const core::Coordinator& coordinator, const JournalTail& tail) {
  return tail.snapshot_bytes + tail.bytes > 2 * SnapshotBytes(coordinator);
}

}  // namespace dp::server
