#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace dp::engine {

// Changes with everything that ranks must agree on to read each other's memory.
inline constexpr char kSegmentLayout[] = "1";

// A chunk is what a rank stages at a time; a slot is the place of one chunk. Four slots let a rank
// be a chunk ahead of its peers (shm_operations.h).
inline constexpr size_t kSlotBytes = size_t{1} << 20;
inline constexpr size_t kSlotsPerRank = 4;

// A collective as one rank calls it. Equal on all ranks, if they agree.
struct SharedCall {
  uint64_t kind = 0;
  uint64_t argument = 0;  // the reduction, or the root
  uint64_t bytes = 0;

  bool operator==(const SharedCall&) const = default;
};

// A rank's part of the segment's head. Only that rank writes it, except `awaits` and `bell`.
struct alignas(128) RankRecord {
  // How many ticks this rank has made (rank_ticks.h).
  std::atomic<uint64_t> ticks;
  std::atomic<uint32_t> left;  // 1: it has left in good order
  // The tick that it sleeps for, times 256, plus the rank that must make it, plus 1. 0: it is
  // awake.
  alignas(64) std::atomic<uint64_t> awaits;
  std::atomic<uint32_t> bell;  // the futex on which it sleeps; anybody adds to it and wakes it
  // The calls with odd and with even numbers: a rank may be one ahead of its peers.
  alignas(64) SharedCall calls[2];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

// Memory that the ranks of a group share: a record and some slots for each. It is a file without a
// name, whose size nobody can change; it ends with the last process that maps it. Pages take memory
// once a rank touches them. Owned by a group.
class SharedSegment {
 public:
  SharedSegment() = default;
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;
  ~SharedSegment();

  // The file of a new segment for `size` ranks. Errors: Unavailable, with the system's words.
  static absl::StatusOr<FileDescriptor> MakeFile(int size);
  // Maps the segment. Errors: Unavailable; Internal the file is no segment for `size` ranks, or
  // could still change its size.
  static absl::StatusOr<SharedSegment> Map(const FileDescriptor& file, int size);

  RankRecord& record(int rank) const;
  uint8_t* slot(int rank, uint64_t chunk) const;

 private:
  uint8_t* memory_ = nullptr;
  int size_ = 0;
};

}  // namespace dp::engine
