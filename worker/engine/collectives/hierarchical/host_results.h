#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/engine/collectives/hierarchical/host_steps.h"
#include "worker/engine/collectives/reduce/ordered_reduce.h"

namespace dp::engine {

// A part of an array, and the rank that makes its result.
struct OwnedPart {
  int rank = 0;
  Slice elements;
};

// Nearly equal parts of `count` elements, one for each of the ranks.
std::vector<OwnedPart> PartsOfRanks(const std::vector<int>& ranks, size_t count);

// An array whose parts have owners, cut into chunks. A chunk has a piece of each part, and its
// pieces fit one area of staging.
class OwnedPieces {
 public:
  // `width`: of an element, in bytes.
  OwnedPieces(std::vector<OwnedPart> parts, size_t width);

  size_t parts() const { return parts_.size(); }
  int owner(size_t part) const { return parts_[part].rank; }
  size_t width() const { return width_; }
  // At least 1.
  size_t chunks() const { return chunks_; }
  // The most elements of a piece; a multiple of a cache line.
  size_t most() const { return most_; }
  // Where the piece lies in the array; may be empty.
  Slice at(size_t part, size_t chunk) const;
  // Where the piece of that part lies in an area, in bytes.
  size_t place(size_t part) const { return part * most_ * width_; }

 private:
  const std::vector<OwnedPart> parts_;
  const size_t width_;
  size_t chunks_ = 1;
  size_t most_ = 0;
};

// How results reach the ranks that want them: an owner sends its piece to its deputies on the other
// hosts. The ranks of each host then copy it from the owner or the deputy of their host.
class HostResults {
 public:
  HostResults(HostRank& self, const HostSteps& steps, const OwnedPieces& pieces)
      : self_(self), steps_(steps), pieces_(pieces) {}

  // The place of this host's result of a piece, in the staging of the rank that handles it.
  uint8_t* place(size_t part, size_t chunk) const;
  // Begins to send this rank's results of the chunk, which lie at their place, and to receive those
  // for which this rank is a deputy.
  std::unique_ptr<Work> Pass(size_t chunk) const;
  // Copies all pieces of the chunk to `array`.
  void Fetch(size_t chunk, uint8_t* array) const;

 private:
  HostRank& self_;
  const HostSteps& steps_;
  const OwnedPieces& pieces_;
};

}  // namespace dp::engine
