#include "client/dpctl/view/display_width.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "base/utf8.h"

namespace dp::ctl {
namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

// Whole blocks of Unicode; the few characters in them that are different do not matter here.
constexpr Range kCombining[] = {
    {0x0300, 0x036F},    // combining diacritical marks
    {0x0483, 0x0489},    // of Cyrillic
    {0x0591, 0x05BD},    // of Hebrew
    {0x064B, 0x065F},    // of Arabic
    {0x1AB0, 0x1AFF},    // extended
    {0x1DC0, 0x1DFF},    // supplement
    {0x200B, 0x200F},    // zero width space, joiners, marks of direction
    {0x202A, 0x202E},    // embeddings of direction
    {0x2060, 0x2064},    // word joiner, invisible operators
    {0x20D0, 0x20FF},    // for symbols
    {0xFE00, 0xFE0F},    // variation selectors
    {0xFE20, 0xFE2F},    // half marks
    {0xE0100, 0xE01EF},  // variation selectors supplement
};
constexpr Range kWide[] = {
    {0x1100, 0x115F},    // Hangul Jamo, initial
    {0x2E80, 0x303E},    // CJK radicals and punctuation
    {0x3041, 0x33FF},    // Hiragana to CJK compatibility
    {0x3400, 0x4DBF},    // CJK extension A
    {0x4E00, 0x9FFF},    // CJK ideographs
    {0xA000, 0xA4CF},    // Yi
    {0xA960, 0xA97F},    // Hangul Jamo extended A
    {0xAC00, 0xD7A3},    // Hangul syllables
    {0xF900, 0xFAFF},    // CJK compatibility ideographs
    {0xFE30, 0xFE6F},    // CJK compatibility forms
    {0xFF00, 0xFF60},    // full-width forms
    {0xFFE0, 0xFFE6},    // full-width signs
    {0x1F300, 0x1F64F},  // pictographs and emoticons
    {0x1F680, 0x1F6FF},  // transport
    {0x1F900, 0x1F9FF},  // supplemental pictographs
    {0x20000, 0x3FFFD},  // CJK extensions B and later
};

template <size_t kCount>
bool IsIn(const Range (&ranges)[kCount], uint32_t code) {
  return std::any_of(std::begin(ranges), std::end(ranges), [code](const Range& range) {
    return range.first <= code && code <= range.last;
  });
}

// The code point of one well-formed sequence.
uint32_t CodeOf(absl::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence.front());
  uint32_t code = sequence.size() == 1 ? lead : lead & (0x7Fu >> sequence.size());
  for (const char next : sequence.substr(1)) {
    code = code << 6 | (static_cast<unsigned char>(next) & 0x3Fu);
  }
  return code;
}

}  // namespace

size_t DisplayWidth(absl::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength({text.data(), text.size()});
    const uint32_t code = length == 0 ? '?' : CodeOf(text.substr(0, length));
    columns += IsIn(kCombining, code) ? 0 : IsIn(kWide, code) ? 2 : 1;
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return columns;
}

}  // namespace dp::ctl
