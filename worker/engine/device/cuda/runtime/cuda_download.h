#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/runtime/cuda_stream.h"

namespace dp::engine::cuda {

// Copies arrays of the device to any host memory, through two page-locked chunks on a stream of its
// own. While the device fills one chunk, the host empties the other. A direct copy to memory that
// is not page-locked would have the driver do the same, slower, and in the training's stream. Not
// thread-safe.
class Download {
 public:
  // Errors: ResourceExhausted.
  static absl::StatusOr<Download> Make(int64_t chunk_bytes);

  Download() = default;  // only to be assigned to
  ~Download();
  Download(Download&& other) noexcept { Swap(other); }
  Download& operator=(Download&& other) noexcept {
    Swap(other);
    return *this;
  }

  // Returns when all bytes are in `to`. Waits for no other stream: the caller has waited for the
  // work that writes `from`.
  absl::Status Copy(const void* from, int64_t bytes, void* to);

 private:
  // Some bytes of the array that is being copied, and the chunk through which they go.
  struct Piece {
    int chunk;
    int64_t first;
    int64_t bytes;
  };
  void Swap(Download& other);
  char* chunk(int number) const { return memory_ + number * chunk_bytes_; }
  Piece PieceAt(int64_t number, int64_t bytes) const;
  absl::Status Start(const Piece& piece, const char* from);
  absl::Status Finish(const Piece& piece, char* to);

  char* memory_ = nullptr;
  int64_t chunk_bytes_ = 0;
  Stream stream_;
  std::vector<Event> filled_;  // for each chunk
};

}  // namespace dp::engine::cuda
