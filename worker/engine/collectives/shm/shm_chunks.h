#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/status.h"
#include "worker/engine/collectives/reduce/ordered_reduce.h"
#include "worker/engine/collectives/shm/shm_rank.h"

namespace dp::engine {

// `total` bytes or elements, cut into chunks of `size`. There is at least one, which may be empty.
struct Chunks {
  Chunks(size_t total_in, size_t size_in)
      : total(total_in), size(size_in), count(std::max<size_t>((total + size - 1) / size, 1)) {}

  Slice at(size_t chunk) const {
    const size_t begin = std::min(chunk * size, total);
    return {begin, std::min(size, total - begin)};
  }

  size_t total;
  size_t size;
  size_t count;
};

inline void CopyBytes(void* to, const void* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

// Goes through the chunks of an operation in which every rank stages chunks for its peers. Reading
// a chunk overlaps with staging the next. The call has begun, and chunk 0 is staged.
template <typename Stage, typename Read>
absl::Status StageAndReadChunks(ShmRank& rank, size_t chunks, Stage stage, Read read) {
  uint64_t staged = rank.made();
  for (size_t c = 0; c < chunks; ++c) {
    DP_RETURN_IF_ERROR(rank.Await(staged));
    if (c + 1 < chunks) {
      stage(c + 1);
      staged = rank.Tick();
    }
    read(c);
  }
  rank.End(chunks);
  return absl::OkStatus();
}

}  // namespace dp::engine
