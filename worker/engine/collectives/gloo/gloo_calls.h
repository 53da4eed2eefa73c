#pragma once

#include <atomic>
#include <cstdint>

namespace dp::engine {

// Which call of Gloo a thread is in. A write that fails can block a call of Gloo for ever. The call
// waits for a turn of Gloo's loop, and the loop waits for a lock of the call. Other threads see
// here that a call does not return. The calls come from one thread at a time and do not nest.
class GlooCalls {
 public:
  // In a call while it lives.
  class Inside {
   public:
    explicit Inside(GlooCalls& calls) : calls_(calls) { ++calls_.borders_; }
    ~Inside() { ++calls_.borders_; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    GlooCalls& calls_;
  };

  // A number that no other call has; 0: none. From any thread.
  uint64_t current() const {
    const uint64_t borders = borders_;
    return borders % 2 == 1 ? borders : 0;
  }

 private:
  std::atomic<uint64_t> borders_ = 0;  // calls that began, and calls that ended
};

}  // namespace dp::engine
