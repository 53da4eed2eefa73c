#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/id.h"
#include "base/mutex.h"

namespace dp::server {

// The memory that tables may take together (dp-coordinator --parameter-memory). Thread-safe.
class ParameterMemory {
 public:
  // A part of it, given back when destroyed. Must not outlive the memory.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(memory_, other.memory_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (memory_ != nullptr) memory_->GiveBack(bytes_);
    }

   private:
    friend class ParameterMemory;
    ParameterMemory* memory_ = nullptr;
    uint64_t bytes_ = 0;
  };

  explicit ParameterMemory(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // Errors: ResourceExhausted names the job, the bytes asked, the bytes free and the flag.
  absl::StatusOr<Share> Take(JobId job, uint64_t bytes) DP_EXCLUDES(mu_);
  // Takes or gives back what `share`, of this memory or empty, lacks or has too many. Errors: as
  // Take, and `share` stays as it is.
  absl::Status Resize(JobId job, uint64_t bytes, Share& share) DP_EXCLUDES(mu_);
  uint64_t taken() const DP_EXCLUDES(mu_);

 private:
  void GiveBack(uint64_t bytes) DP_EXCLUDES(mu_);

  const uint64_t bytes_max_;
  mutable Mutex mu_;
  uint64_t taken_ DP_GUARDED_BY(mu_) = 0;
};

}  // namespace dp::server
