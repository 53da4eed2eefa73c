#pragma once

#include <cstdint>

#include "base/model/host_device.h"
#include "worker/engine/device/cuda/kernels/cuda_launch.h"

// How the gradient of an embedding is divided. Rows are sorted by token and cut into chunks of
// equal length. A run is the rows of one token; each chunk sums its rows of each run. A run within
// one chunk is then done. A longer run leaves a part in each of its chunks, and the chunk in which
// the run begins adds the parts up.

namespace dp::engine::cuda {

inline constexpr int kEmbeddingChunk = 32;

// One chunk of the sorted rows; `tokens` holds the sorted tokens of all rows.
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

  // Whether the run of the chunk's first row began in an earlier chunk.
  DP_HOST_DEVICE bool BeginsInside() const {
    return begin > 0 && tokens[begin - 1] == tokens[begin];
  }
  // Whether the run of the chunk's last row goes on in the next chunk.
  DP_HOST_DEVICE bool EndsInside() const { return end < rows && tokens[end - 1] == tokens[end]; }
  // Whether a run begins in this chunk and goes on behind it. This chunk then adds up the run's
  // parts.
  DP_HOST_DEVICE bool BeginsLongRun() const {
    return EndsInside() && !(BeginsInside() && tokens[begin] == tokens[end - 1]);
  }
  // Whether the row at `place` of this chunk is the last of its run.
  DP_HOST_DEVICE bool EndsRun(int64_t place) const {
    return place + 1 == rows || tokens[place + 1] != tokens[place];
  }
};

// The parts that a chunk leaves. The head is of a run that began before the chunk, the tail of a
// run that goes on behind it. A chunk in the middle of one run leaves the head.
enum EmbeddingPart { kHeadPart = 0, kTailPart = 1, kEmbeddingParts = 2 };

DP_HOST_DEVICE inline int64_t EmbeddingChunks(int64_t rows) {
  return DivideUp(rows, kEmbeddingChunk);
}

}  // namespace dp::engine::cuda
