#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "worker/engine/collectives/collective.h"
#include "worker/engine/collectives/shm/shm_group.h"

namespace dp::engine {

// Changes with everything that ranks must agree on to read each other's memory.
inline constexpr char kSegmentLayout[] = "4";

// A chunk is what a rank stages at a time; a slot is the place of one chunk. Four slots let a rank
// be a chunk ahead of its peers (shm_operations.h).
inline constexpr size_t kSlotBytes = size_t{1} << 20;
inline constexpr size_t kSlotsPerRank = 4;

// Address space for the memory that a rank allocates. Only pages that it touches take memory.
inline constexpr size_t kHeapBytes = size_t{16} << 30;

// A collective, as a rank tells it to its peers.
struct SharedCall {
  CallShape shape;
  uint64_t heap_place = 0;  // 1 + where its data begins in the rank's heap; 0: elsewhere
  // An exchange only: the bytes that the rank sends to each rank, and expects from each.
  uint64_t sent[kSharingRanksMax];
  uint64_t expected[kSharingRanksMax];
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

// Memory that the ranks of a group share: a record, some slots and a heap for each. It is a file
// without a name, whose size nobody can change; it ends with the last process that maps it. Pages
// take memory once a rank touches them. Owned by a group.
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
  // kHeapBytes, on a page; zeros at first.
  uint8_t* heap(int rank) const;

 private:
  uint8_t* memory_ = nullptr;
  int size_ = 0;
};

}  // namespace dp::engine
