#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/logs/log_chunk.h"
#include "server/logs/log_index.h"

namespace dp::server {

// Bytes about to be added to a stream.
struct NewBytes {
  absl::string_view data;
  uint64_t offset = 0;       // of the first byte
  bool begins_line = false;  // the byte before `data` ends a line, or there is none
};

// The entries to note for the times at which the bytes were found. Each time moves to the first
// line that begins at or after it, so that readers who ask for a time get whole lines. A time that
// is not above the last one, as when a clock was set back, adds no entry. Pure.
std::vector<LogIndex::Entry> LineTimes(const NewBytes& bytes, const std::vector<LogTime>& times,
                                       const std::optional<LogIndex::Entry>& last);

// Converts a time to and from the value of an entry: microseconds since the Unix epoch, at least 0.
uint64_t ToIndexValue(absl::Time time);
absl::Time FromIndexValue(uint64_t value);

}  // namespace dp::server
