#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace dp::server {

// A preallocated file beside the journal, removed when the disk is full. Its space is enough to
// start, to answer, and to cancel jobs. The file is made again once there is space. Failures are
// logged once; a coordinator without ballast works. Not thread-safe.
class Ballast {
 public:
  // Bytes that any user may still write on the disk.
  using Available = std::function<uint64_t()>;

  Ballast(std::filesystem::path path, uint64_t bytes, Available available);

  // Removes the file if less than twice its size is free, because a write-ahead log may be longer
  // than usual. Call this before opening the journal.
  void ReleaseWhenFull();
  // Makes the file if it is missing and four times its size is free. The margin keeps the file from
  // filling the disk, and from coming and going.
  void Restore();

 private:
  const std::filesystem::path path_;
  const uint64_t bytes_;
  const Available available_;
  bool exists_;
  bool failed_ = false;  // the latest attempt to make the file failed and was logged
};

}  // namespace dp::server
