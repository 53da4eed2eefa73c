#include "base/data/text/unicode_class.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "absl/types/span.h"
#include "base/utf8.h"

namespace dp::data {
namespace {

// First and last code point.
struct CodeRange {
  char32_t first;
  char32_t last;
};

#include "base/data/text/unicode_ranges.inc"

constexpr CodeRange kSpaces[] = {
    {0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
    {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
};

bool Contains(absl::Span<const CodeRange> ranges, char32_t code) {
  const auto* const after =
      std::upper_bound(ranges.begin(), ranges.end(), code,
                       [](char32_t wanted, const CodeRange& each) { return wanted < each.first; });
  return after != ranges.begin() && code <= std::prev(after)->last;
}

}  // namespace

CharClass ClassOf(char32_t code) {
  if (Contains(kLetters, code)) return CharClass::kLetter;
  if (Contains(kNumbers, code)) return CharClass::kNumber;
  if (Contains(kSpaces, code)) return CharClass::kSpace;
  return CharClass::kOther;
}

Character FirstCharacter(absl::string_view text) {
  constexpr char32_t kReplacement = 0xfffd;
  const size_t bytes = Utf8SequenceLength(std::string_view(text.data(), text.size()));
  if (bytes == 0) return {kReplacement, 1};
  const auto first = static_cast<unsigned char>(text[0]);
  if (bytes == 1) return {first, 1};
  char32_t code = first & (0xff >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
  }
  return {code, bytes};
}

}  // namespace dp::data
