#include "client/dpctl/log_lines.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/limits.h"

namespace dp::ctl {

std::vector<LogLine> LogLines::Add(const v1::LogChunk& chunk) {
  const Stream stream{chunk.generation(), chunk.rank(), chunk.stream()};
  std::string& open = open_[stream];
  std::vector<LogLine> lines;
  absl::string_view data = chunk.data();
  while (!data.empty()) {
    const size_t room = kWholeLineBytesMax - open.size();
    const size_t end = std::min(data.find('\n'), data.size());
    const size_t taken = std::min(end, room);
    const bool complete = end < data.size() && end <= room;
    open.append(data.data(), taken);
    data.remove_prefix(taken + (complete ? 1 : 0));
    if (complete || open.size() == kWholeLineBytesMax)
      lines.push_back({stream.generation, stream.rank, stream.stream, std::exchange(open, "")});
  }
  return lines;
}

std::vector<LogLine> LogLines::Rest() {
  std::vector<LogLine> lines;
  for (auto& [stream, open] : std::exchange(open_, {}))
    if (!open.empty())
      lines.push_back({stream.generation, stream.rank, stream.stream, std::move(open)});
  return lines;
}

}  // namespace dp::ctl
