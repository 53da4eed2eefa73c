#include "worker/agent/spool/output_lines.h"

#include <algorithm>

#include "base/limits.h"
#include "base/utf8.h"

namespace dp::worker {
size_t ShippableBytes(std::string_view unsent, bool ended) {
  if (ended) return unsent.size();
  const size_t newline = unsent.rfind('\n');
  const size_t whole = newline == unsent.npos ? 0 : newline + 1;
  const std::string_view line = unsent.substr(whole);
  const bool waits = line.find('\r') == line.npos && line.size() < kWholeLineBytesMax;
  return waits ? whole : unsent.size();
}

std::vector<std::string_view> LastLinesOf(std::string_view text, size_t count) {
  const size_t last = text.find_last_not_of("\r\n");
  text = text.substr(0, last == text.npos ? 0 : last + 1);
  std::vector<std::string_view> lines;
  while (!text.empty() && lines.size() < count) {
    const size_t newline = text.rfind('\n');
    lines.push_back(newline == text.npos ? text : text.substr(newline + 1));
    text = text.substr(0, newline == text.npos ? 0 : newline);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

std::string Printable(std::string_view line, size_t bytes_max) {
  constexpr std::string_view kCut = "...";
  const bool cut = line.size() > bytes_max;
  const size_t room = cut ? bytes_max - kCut.size() : bytes_max;
  std::string printable;
  while (!line.empty()) {
    const size_t length = Utf8SequenceLength(line);
    if (printable.size() + std::max<size_t>(length, 1) > room) break;
    printable += length > 0 ? line.substr(0, length) : "?";
    line.remove_prefix(std::max<size_t>(length, 1));
  }
  if (cut) printable += kCut;
  return printable;
}

}  // namespace dp::worker
