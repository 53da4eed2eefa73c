#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace dp::server {

// The room on the disk that files of parameters may take together. A push reserves all of its bytes
// before it writes the first. The disk still counts reserved bytes as free until they are written.
// They are subtracted here, so that pushes side by side leave the reserve. Thread-safe.
class ParameterDisk {
 public:
  static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

  // The room of one file that is being written. Given back when destroyed, unless it is kept. Used
  // by one thread at a time. Must not outlive the disk.
  class Room {
   public:
    Room(Room&& other) noexcept
        : disk_(std::exchange(other.disk_, nullptr)),
          bytes_(other.bytes_),
          unwritten_(other.unwritten_) {}
    Room& operator=(Room&&) = delete;
    ~Room();

    // The file has grown by so many bytes.
    void Wrote(uint64_t bytes);
    // The file stays. Free gives its bytes back.
    void Keep();
    uint64_t bytes() const { return bytes_; }

   private:
    friend class ParameterDisk;
    Room(ParameterDisk& disk, uint64_t bytes) : disk_(&disk), bytes_(bytes), unwritten_(bytes) {}

    ParameterDisk* disk_;  // null: kept, or moved away
    uint64_t bytes_;
    uint64_t unwritten_;
  };

  // `bytes_max`: of all files and reservations. `reserve`: bytes that stay free on the disk.
  // `available`: bytes that may still be written there; null: no bound.
  ParameterDisk(uint64_t bytes_max, uint64_t reserve, std::function<uint64_t()> available)
      : bytes_max_(bytes_max), reserve_(reserve), available_(std::move(available)) {}

  // `what` begins the error's text. Blocking. Errors: ResourceExhausted.
  absl::StatusOr<Room> Take(const std::string& what, uint64_t bytes) DP_EXCLUDES(mu_);
  // A file that was found.
  void Add(uint64_t bytes) DP_EXCLUDES(mu_);
  // A file of so many bytes is gone.
  void Free(uint64_t bytes) DP_EXCLUDES(mu_);

  uint64_t bytes() const DP_EXCLUDES(mu_);  // files and reservations

 private:
  uint64_t written_ever() const DP_EXCLUDES(mu_);
  void Written(uint64_t bytes) DP_EXCLUDES(mu_);

  const uint64_t bytes_max_;
  const uint64_t reserve_;
  const std::function<uint64_t()> available_;

  mutable Mutex mu_;
  uint64_t bytes_ DP_GUARDED_BY(mu_) = 0;
  uint64_t unwritten_ DP_GUARDED_BY(mu_) = 0;     // of these, reserved and not written yet
  uint64_t written_ever_ DP_GUARDED_BY(mu_) = 0;  // only grows
};

}  // namespace dp::server
