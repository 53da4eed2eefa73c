#include "base/security/visible_text.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "base/utf8.h"

namespace dp::security {
namespace {

struct CodeRange {
  uint32_t first;
  uint32_t last;
};

// Code points without a picture of their own (Unicode 15): controls, spaces, default ignorable
// ones, format marks and noncharacters. In order.
constexpr CodeRange kUnseen[] = {
    {0x0000, 0x001F},   {0x007F, 0x00A0},   {0x00AD, 0x00AD},   {0x034F, 0x034F},
    {0x061C, 0x061C},   {0x115F, 0x1160},   {0x1680, 0x1680},   {0x17B4, 0x17B5},
    {0x180B, 0x180F},   {0x2000, 0x200F},   {0x2028, 0x202F},   {0x205F, 0x206F},
    {0x2800, 0x2800},   {0x3000, 0x3000},   {0x3164, 0x3164},   {0xE000, 0xF8FF},
    {0xFDD0, 0xFDEF},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},
    {0xFFF0, 0xFFFB},   {0xFFFE, 0xFFFF},   {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3},
    {0x1D173, 0x1D17A}, {0xE0000, 0x10FFFF}};

// The code point of a well-formed sequence.
uint32_t CodeOf(std::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence.front());
  uint32_t code = sequence.size() == 1 ? lead : lead & (0x7Fu >> sequence.size());
  for (const char c : sequence.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3F);
  return code;
}

bool IsSeen(uint32_t code) {
  if ((code & 0xFFFE) == 0xFFFE) return false;  // the noncharacters at the end of each plane
  const auto after =
      std::upper_bound(std::begin(kUnseen), std::end(kUnseen), code,
                       [](uint32_t value, const CodeRange& range) { return value < range.first; });
  return after == std::begin(kUnseen) || code > std::prev(after)->last;
}

}  // namespace

bool IsVisibleText(std::string_view text) {
  if (!text.empty() && (text.front() == ' ' || text.back() == ' ')) return false;
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    if (length == 0 || !IsSeen(CodeOf(text.substr(0, length)))) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace dp::security
