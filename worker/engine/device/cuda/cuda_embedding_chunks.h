#pragma once

#include <cstdint>

#include "worker/engine/device/cuda/cuda_host_device.h"
#include "worker/engine/device/cuda/cuda_launch.h"

// How the gradient of an embedding is divided: rows are sorted by token, cut into chunks of equal
// length, and each chunk sums what it has of each run, the rows of one token. A run that lies in
// one chunk is done; of the others each chunk leaves its part, and the chunk in which the run
// begins adds them up.

namespace dp::engine::cuda {

inline constexpr int kEmbeddingChunk = 32;

// One chunk of the sorted rows; `tokens` are all rows' tokens, sorted.
struct EmbeddingChunk {
  const int32_t* tokens;
  int64_t rows;
  int64_t begin;
  int64_t end;

  DP_HOST_DEVICE EmbeddingChunk(const int32_t* sorted, int64_t all, int64_t chunk)
      : tokens(sorted),
        rows(all),
        begin(chunk * kEmbeddingChunk),
        end(begin + kEmbeddingChunk < all ? begin + kEmbeddingChunk : all) {}

  // Whether the run at the chunk's beginning began before it.
  DP_HOST_DEVICE bool BeginsInside() const {
    return begin > 0 && tokens[begin - 1] == tokens[begin];
  }
  // Whether the run at the chunk's end goes on behind it.
  DP_HOST_DEVICE bool EndsInside() const { return end < rows && tokens[end - 1] == tokens[end]; }
  // Whether a run begins here that goes on behind the chunk: this chunk adds its parts up.
  DP_HOST_DEVICE bool BeginsLongRun() const {
    return EndsInside() && !(BeginsInside() && tokens[begin] == tokens[end - 1]);
  }
  // Whether the row at `place` of this chunk is the last of its run.
  DP_HOST_DEVICE bool EndsRun(int64_t place) const {
    return place + 1 == rows || tokens[place + 1] != tokens[place];
  }
};

// The parts a chunk leaves: of the run that it begins inside of, and of the one it ends inside of.
// A chunk that is the middle of one run leaves the first.
enum EmbeddingPart { kHeadPart = 0, kTailPart = 1, kEmbeddingParts = 2 };

DP_HOST_DEVICE inline int64_t EmbeddingChunks(int64_t rows) {
  return DivideUp(rows, kEmbeddingChunk);
}

}  // namespace dp::engine::cuda
