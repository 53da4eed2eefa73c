#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/runtime/cuda_stream.h"

namespace dp::engine::cuda {

// Slots of page-locked host memory, used in turn. The host hands data to a stream through them and
// goes on. Not thread-safe.
//
//   DP_ASSIGN_OR_RETURN(void* slot, ring.Acquire());
//   ... fill it ...
//   DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(to, slot, bytes, cudaMemcpyHostToDevice, stream));
//   DP_RETURN_IF_ERROR(ring.Release(stream));
class PinnedRing {
 public:
  // `slots` is 2 or more, so that the host fills one while the device reads another.
  // Errors: ResourceExhausted.
  static absl::StatusOr<PinnedRing> Make(int slots, int64_t bytes_per_slot);

  PinnedRing() = default;
  ~PinnedRing();
  PinnedRing(PinnedRing&& other) noexcept { Swap(other); }
  PinnedRing& operator=(PinnedRing&& other) noexcept {
    Swap(other);
    return *this;
  }

  // Returns the next slot, aligned to 256 bytes, once the copies from its last use are done. Waits
  // only if the host is a whole ring ahead.
  absl::StatusOr<void*> Acquire();
  // Call once the copies from the acquired slot are in `stream`; the slot is free when they are
  // done.
  absl::Status Release(cudaStream_t stream);

 private:
  void Swap(PinnedRing& other);

  char* memory_ = nullptr;
  int64_t bytes_per_slot_ = 0;
  std::vector<Event> free_;  // for each slot, reached when its last copies are done
  int next_ = 0;
  bool acquired_ = false;
};

}  // namespace dp::engine::cuda
