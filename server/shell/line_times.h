#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/shell/log_chunk.h"
#include "server/shell/log_index.h"

namespace dp::server {

// Bytes that are about to be added to a stream.
struct NewBytes {
  absl::string_view data;
  uint64_t offset = 0;       // of the first
  bool begins_line = false;  // the byte before them ends a line, or there is none
};

// What to note of the times at which they were found: each moved to the first line that begins at
// or behind it, so that readers who ask for a time get whole lines. Times that do not grow, as when
// a clock was set back, count as the last noted. Pure.
std::vector<LogIndex::Entry> LineTimes(const NewBytes& bytes, const std::vector<LogTime>& times,
                                       const std::optional<LogIndex::Entry>& last);

// As an entry has them.
uint64_t ToIndexValue(absl::Time time);
absl::Time FromIndexValue(uint64_t value);

}  // namespace dp::server
