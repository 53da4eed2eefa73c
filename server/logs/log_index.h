#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dp::server {

// Notes on places in a stream: pairs of an offset and a number, both ascending, in a file of their
// own. Each pair has 16 bytes, little-endian. Only the last pair is in memory; searches bisect the
// file. An index without a file is empty, as beside the streams of older releases. Not thread-safe;
// owned by LogFile.
//
// Entries are written before the bytes that they describe. Entries beyond the stream's end are left
// of a crash, and opening removes them.
class LogIndex {
 public:
  struct Entry {
    uint64_t offset = 0;
    uint64_t value = 0;

    bool operator==(const Entry&) const = default;
  };

  explicit LogIndex(std::filesystem::path path) : path_(std::move(path)) {}
  // Opens the index that an earlier process left, for a stream of `stream_end` bytes.
  // Errors: Internal names the file.
  static absl::StatusOr<LogIndex> Open(std::filesystem::path path, uint64_t stream_end);

  // Adds entries, none of them before the last. After an error, open the index anew.
  // Errors: ResourceExhausted the disk is full; Internal.
  absl::Status Append(const std::vector<Entry>& entries);
  // Removes all entries but the first `count`. Errors: as Open.
  absl::Status Keep(uint64_t count);
  // Errors: Internal.
  absl::Status Sync() const;

  // How many entries are before `offset`, or have a value below `value`. Errors: Internal.
  absl::StatusOr<uint64_t> CountBefore(uint64_t offset) const;
  absl::StatusOr<uint64_t> CountBelow(uint64_t value) const;
  // Entries from number `first` on; fewer than `count` at the end. Errors: Internal.
  absl::StatusOr<std::vector<Entry>> Read(uint64_t first, uint64_t count) const;

  uint64_t size() const { return size_; }
  const std::optional<Entry>& last() const { return last_; }
  uint64_t bytes() const;

 private:
  absl::Status ReadLast();
  template <typename IsBefore>
  absl::StatusOr<uint64_t> Bisect(IsBefore is_before) const;

  std::filesystem::path path_;
  uint64_t size_ = 0;
  std::optional<Entry> last_;
};

}  // namespace dp::server
