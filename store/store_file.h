#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"

namespace dp {

// The file behind a FileStore: a list of records that only grows, shared by the processes of one
// run. Each process is a member and locks a byte of its own as a sign that it lives. The kernel
// unlocks the byte however the process ends, so a file left behind by a run differs from one in
// use.
//
// Locks are fcntl's, on the open file, not on the process: two members may share a process. Not
// thread-safe; owned by a FileStore.
class StoreFile {
 public:
  // Holds the lock of the records; its destructor unlocks. One at a time.
  class Lock {
   public:
    explicit Lock(const StoreFile& file) : file_(&file) {}
    Lock(Lock&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
    Lock& operator=(Lock&&) = delete;
    ~Lock();

   private:
    const StoreFile* file_;
  };

  // Joins the run whose `members` share the file at `path`; the first member creates the file.
  // Errors: NotFound no such directory; FailedPrecondition an earlier run's file, or another number
  // of members. InvalidArgument it is no store, or a directory, or `members` is out of range.
  // Unavailable the file system.
  static absl::StatusOr<std::unique_ptr<StoreFile>> Join(const std::string& path, int members);
  // Leaves. The last to leave after all have joined removes the file.
  ~StoreFile();

  const std::string& path() const { return path_; }

  // Blocks while others hold the lock: they hold it for single reads and writes. Errors:
  // Unavailable.
  absl::StatusOr<Lock> ForReading() const;
  absl::StatusOr<Lock> ForWriting() const;

  // The records behind those that were read or appended here before. Requires a lock.
  // Errors: DataLoss; Unavailable.
  absl::StatusOr<std::vector<std::string>> ReadNew();
  // Requires a lock for writing, and ReadNew before. On an error nothing was appended.
  // Errors: Unavailable, with the file system's reason.
  absl::Status Append(absl::string_view record);
  // Reads from the first record again.
  void Rewind();

 private:
  struct Header;

  StoreFile(std::string path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  absl::StatusOr<Lock> LockRecords(short kind) const;
  absl::StatusOr<Header> ReadHeader() const;
  absl::Status Write(uint64_t offset, absl::string_view bytes) const;
  absl::StatusOr<std::string> Read(uint64_t offset, size_t size) const;
  absl::Status BecomeMember(int members);
  // Errors: FailedPrecondition.
  absl::Status CheckFresh(const Header& header, int members) const;
  bool Lives(uint64_t member) const;
  // The living members that have joined, without this one.
  uint64_t LivingOthers(const Header& header) const;
  absl::Status Stale(const std::string& why) const;
  absl::Status InUse(const std::string& why) const;
  absl::Status Failed(const char* what) const;

  const std::string path_;
  FileDescriptor file_;
  uint64_t member_ = 0;
  const pid_t joined_in_ = getpid();
  bool joined_ = false;
  uint64_t read_ = 0;  // offset of the first record that was not read yet
};

}  // namespace dp
