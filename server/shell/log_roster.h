#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/shell/log_chunk.h"

namespace dp::server {

// What is known of the ranks of one generation besides the bytes that they wrote: where each ran,
// and whether all of its output has come. Lies beside the streams, in a file `ranks` of lines that
// only grows; the last line of a rank counts. Without one it is empty, as beside the streams of
// older releases. Not thread-safe; owned by LogStore.
class LogRoster {
 public:
  // As an earlier life of the process left it; a line that a crash tore is forgotten.
  // Errors: Internal names the file.
  static absl::StatusOr<LogRoster> Open(std::filesystem::path path);

  // Takes what is news in it: what is known stays, but for what was not known.
  void Note(const RankOutput& output);
  // Makes all that was noted durable. After an error it is written with what is noted next.
  // Errors: ResourceExhausted the disk is full; Internal.
  absl::Status Write();

  // Null where nothing is known of it.
  const RankOutput* Find(int rank) const;
  const std::map<int, RankOutput>& ranks() const { return ranks_; }

 private:
  explicit LogRoster(std::filesystem::path path) : path_(std::move(path)) {}
  void Recover(absl::string_view text);

  std::filesystem::path path_;
  uint64_t size_ = 0;  // of the file, without what is torn
  // Nothing in the file waits for a sync. Not so after Open: an earlier process may have died
  // between its write and its sync.
  bool durable_ = false;
  bool name_durable_ = false;
  std::string unwritten_;
  std::map<int, RankOutput> ranks_;
};

}  // namespace dp::server
