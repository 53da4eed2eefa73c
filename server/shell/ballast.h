#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace dp::server {

// A file of no content beside the journal, which is removed when the disk is full: its room is
// enough to start, to answer, and to cancel jobs. It is made again once there is room. Failures are
// logged, once; a coordinator without ballast works. Not thread-safe.
class Ballast {
 public:
  // Bytes that anybody may still write on the disk.
  using Available = std::function<uint64_t()>;

  Ballast(std::filesystem::path path, uint64_t bytes, Available available);

  // Gives it up where less than twice its size is free: a write-ahead log may be longer than usual.
  // Before the journal is opened.
  void ReleaseWhenFull();
  // Makes it where it is missing and four times its size is free: so that it does not fill the
  // disk, and does not come and go.
  void Restore();

 private:
  const std::filesystem::path path_;
  const uint64_t bytes_;
  const Available available_;
  bool there_;
  bool failed_ = false;  // the latest try to make it; it was logged
};

}  // namespace dp::server
