#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace dp::engine {

// Memory of a rank that the ranks of its host read. It has places for data, which this rank stages
// for its peers, and for results, which it has made or received for them. A notice says how this
// rank fares. Only the notice may be read while its rank writes it.
class StagingArea {
 public:
  static constexpr size_t kAreaBytes = size_t{4} << 20;

  // The memory that a rank of a group of `ranks` needs, zeroed.
  static constexpr size_t BytesFor(int ranks) { return kMissing + static_cast<size_t>(ranks); }

  explicit StagingArea(uint8_t* memory = nullptr) : memory_(memory) {}

  // The place of the chunk; two chunks in sequence have different places.
  uint8_t* data(size_t chunk) const { return memory_ + chunk % 2 * kAreaBytes; }
  uint8_t* results(size_t chunk) const { return memory_ + (2 + chunk % 2) * kAreaBytes; }

  // When the running operation must end, by Clock::SinceBoot.
  void SetDeadline(absl::Duration since_boot) const {
    Deadline().store(absl::ToInt64Nanoseconds(since_boot));
  }
  absl::Duration deadline() const { return absl::Nanoseconds(Deadline().load()); }

  // This rank has waited in vain for `missing` until the deadline. Its peers see that once they see
  // it leave.
  void GiveUp(const std::vector<int>& missing) const {
    for (const int rank : missing) IsMissing(rank).store(1);
  }
  // Whether this rank gave up waiting for that one.
  bool GaveUp(int rank) const { return IsMissing(rank).load() != 0; }

  // This rank has learned that the calls of ranks differ. Its peers see that in the same way.
  void NoteDifference() const { Differs().store(1); }
  bool saw_difference() const { return Differs().load() != 0; }

 private:
  // The parts of the notice.
  static constexpr size_t kDeadline = 4 * kAreaBytes;
  static constexpr size_t kDiffers = kDeadline + sizeof(int64_t);
  static constexpr size_t kMissing = kDiffers + 1;

  std::atomic_ref<int64_t> Deadline() const {
    return std::atomic_ref(*reinterpret_cast<int64_t*>(memory_ + kDeadline));
  }
  std::atomic_ref<uint8_t> Differs() const { return std::atomic_ref(memory_[kDiffers]); }
  std::atomic_ref<uint8_t> IsMissing(int rank) const {
    return std::atomic_ref(memory_[kMissing + static_cast<size_t>(rank)]);
  }

  uint8_t* memory_;
};

}  // namespace dp::engine
