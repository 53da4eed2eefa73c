#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/logs/log_chunk.h"

namespace dp::server {

// Stores for each rank of one generation where it ran, and whether all of its output has arrived.
// Kept beside the streams, in a file `ranks` of lines that only grows; a rank's last line counts. A
// roster without a file is empty, as beside the streams of older releases. Not thread-safe; owned
// by LogStore.
class LogRoster {
 public:
  // Opens the roster that an earlier process left, without a line that a crash tore.
  // Errors: Internal names the file.
  static absl::StatusOr<LogRoster> Open(std::filesystem::path path);

  // Takes from `output` what was unknown; what is known stays.
  void Note(const RankOutput& output);
  // Makes all that was noted durable. After an error, the next Write tries again.
  // Errors: ResourceExhausted the disk is full; Internal.
  absl::Status Write();

  // Null if nothing is known of the rank.
  const RankOutput* Find(int rank) const;
  const std::map<int, RankOutput>& ranks() const { return ranks_; }

 private:
  explicit LogRoster(std::filesystem::path path) : path_(std::move(path)) {}
  void Recover(absl::string_view text);

  std::filesystem::path path_;
  uint64_t size_ = 0;  // of the file, without a torn line
  // Nothing in the file waits for a sync. False after Open: an earlier process may have died
  // between its write and its sync.
  bool durable_ = false;
  bool name_durable_ = false;
  std::string unwritten_;
  std::map<int, RankOutput> ranks_;
};

}  // namespace dp::server
