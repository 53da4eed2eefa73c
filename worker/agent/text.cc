#include "worker/agent/text.h"

#include <algorithm>
#include <cstdint>

namespace dp::worker {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Length of the well-formed UTF-8 sequence at the start of `text` (RFC 3629); 0 where there is
// none.
size_t SequenceLength(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  uint32_t code = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[i])) return 0;
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < kSmallest[length] || code > 0x10FFFF || surrogate ? 0 : length;
}

}  // namespace

size_t ShippableBytes(std::string_view unsent, bool ended) {
  if (ended) return unsent.size();
  const size_t newline = unsent.rfind('\n');
  const size_t whole = newline == unsent.npos ? 0 : newline + 1;
  return unsent.size() - whole >= kWholeLineMax ? unsent.size() : whole;
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
    const size_t length = SequenceLength(line);
    if (printable.size() + std::max<size_t>(length, 1) > room) break;
    printable += length > 0 ? line.substr(0, length) : "?";
    line.remove_prefix(std::max<size_t>(length, 1));
  }
  if (cut) printable += kCut;
  return printable;
}

}  // namespace dp::worker
