#include "worker/engine/device/cuda/runtime/cuda_pinned_ring.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "worker/engine/device/cuda/runtime/cuda_arena_plan.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {

absl::StatusOr<PinnedRing> PinnedRing::Make(int slots, int64_t bytes_per_slot) {
  DP_CHECK(slots >= 2 && bytes_per_slot > 0);
  PinnedRing ring;
  ring.bytes_per_slot_ = (bytes_per_slot + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  void* memory = nullptr;
  DP_CUDA_RETURN_IF_ERROR(cudaMallocHost(&memory, slots * ring.bytes_per_slot_));
  ring.memory_ = static_cast<char*>(memory);
  for (int slot = 0; slot < slots; ++slot) {
    DP_ASSIGN_OR_RETURN(Event event, Event::Make());
    ring.free_.push_back(std::move(event));
  }
  return ring;
}

// Copies may still read the slots, so the destructor waits for them.
PinnedRing::~PinnedRing() {
  for (const Event& event : free_) cudaEventSynchronize(event.get());
  cudaFreeHost(memory_);
}

absl::StatusOr<void*> PinnedRing::Acquire() {
  DP_CHECK(!acquired_ && !free_.empty());
  DP_RETURN_IF_ERROR(free_[next_].Synchronize());
  acquired_ = true;
  return memory_ + next_ * bytes_per_slot_;
}

absl::Status PinnedRing::Release(cudaStream_t stream) {
  DP_CHECK(acquired_);
  DP_RETURN_IF_ERROR(free_[next_].Record(stream));
  acquired_ = false;
  next_ = (next_ + 1) % static_cast<int>(free_.size());
  return absl::OkStatus();
}

void PinnedRing::Swap(PinnedRing& other) {
  std::swap(memory_, other.memory_);
  std::swap(bytes_per_slot_, other.bytes_per_slot_);
  std::swap(free_, other.free_);
  std::swap(next_, other.next_);
  std::swap(acquired_, other.acquired_);
}

}  // namespace dp::engine::cuda
