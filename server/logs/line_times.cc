#include "server/logs/line_times.h"

#include <algorithm>

namespace dp::server {
namespace {

// The first line that begins at or after `at`; nullopt if it does not begin in these bytes.
std::optional<uint64_t> NextLine(const NewBytes& bytes, uint64_t at) {
  const uint64_t skip = std::max(at, bytes.offset) - bytes.offset;
  if (skip == 0 && bytes.begins_line) return bytes.offset;
  const size_t newline = bytes.data.find('\n', skip == 0 ? 0 : skip - 1);
  if (newline == bytes.data.npos || newline + 1 == bytes.data.size()) return std::nullopt;
  return bytes.offset + newline + 1;
}

}  // namespace

std::vector<LogIndex::Entry> LineTimes(const NewBytes& bytes, const std::vector<LogTime>& times,
                                       const std::optional<LogIndex::Entry>& last) {
  std::vector<LogIndex::Entry> entries;
  uint64_t latest = last ? last->value : 0;
  for (const LogTime& time : times) {
    const std::optional<uint64_t> line = NextLine(bytes, time.offset);
    const uint64_t value = ToIndexValue(time.time);
    if (!line || value <= latest) continue;
    latest = value;
    // Both times moved to the same line, so the later one counts.
    if (!entries.empty() && entries.back().offset == *line) {
      entries.back().value = value;
    } else {
      entries.push_back({*line, value});
    }
  }
  return entries;
}

uint64_t ToIndexValue(absl::Time time) {
  return static_cast<uint64_t>(std::max<int64_t>(absl::ToUnixMicros(time), 0));
}

absl::Time FromIndexValue(uint64_t value) {
  return absl::FromUnixMicros(static_cast<int64_t>(value));
}

}  // namespace dp::server
