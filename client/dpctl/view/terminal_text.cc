#include "client/dpctl/view/terminal_text.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/utf8.h"
#include "client/dpctl/view/printable.h"

namespace dp::ctl {
namespace {

constexpr char kBegin[] = "\x1b[";
constexpr char kReset[] = "\x1b[0m";

// Where the parameters end of the sequence at the start of the text.
size_t EndOfParameters(absl::string_view text) {
  return std::min(text.find_first_not_of("0123456789;:", 2), text.size());
}

// Length of the colour at the start of the text; 0: there is none.
size_t ColourLength(absl::string_view text) {
  if (!absl::StartsWith(text, kBegin)) return 0;
  const size_t end = EndOfParameters(text);
  return end < kCutBytesMax && end < text.size() && text[end] == 'm' ? end + 1 : 0;
}

bool ResetsColour(absl::string_view colour) { return colour == "\x1b[m" || colour == kReset; }

// Whether all of the text is the beginning of a colour.
bool BeginsColour(absl::string_view text) {
  if (text == "\x1b") return true;
  return absl::StartsWith(text, kBegin) && text.size() < kCutBytesMax &&
         EndOfParameters(text) == text.size();
}

// Whether all of the text is the beginning of a character of UTF-8.
bool BeginsCharacter(absl::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
  return text.size() < length && std::all_of(text.begin() + 1, text.end(), [](char c) {
           return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
         });
}

// The first character, of which `length` is 0 if it is a byte that is no UTF-8.
std::string Shown(absl::string_view text, size_t length) {
  const auto byte = static_cast<unsigned char>(text[0]);
  // Some terminals obey such bytes.
  if (length == 0 && byte < 0xa0) return absl::StrFormat("\\x%02x", byte);
  const bool stays = byte == '\t' || byte == '\n' || byte == '\r';
  const absl::string_view character = text.substr(0, std::max<size_t>(length, 1));
  return stays ? std::string(character) : Printable(character);
}

// A carriage return at the end belongs to the line break that follows.
void EndColour(std::string* text) {
  text->insert(absl::EndsWith(*text, "\r") ? text->size() - 1 : text->size(), kReset);
}

}  // namespace

std::string TerminalText(absl::string_view text, std::string* cut) {
  std::string out;
  bool coloured = false;
  if (cut != nullptr) cut->clear();
  while (!text.empty()) {
    if (cut != nullptr && (BeginsColour(text) || BeginsCharacter(text))) {
      *cut = std::string(text);
      break;
    }
    size_t length = ColourLength(text);
    if (length > 0) {
      const absl::string_view colour = text.substr(0, length);
      coloured = !ResetsColour(colour);
      absl::StrAppend(&out, colour);
    } else {
      length = Utf8SequenceLength({text.data(), text.size()});
      absl::StrAppend(&out, Shown(text, length));
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  if (coloured) EndColour(&out);
  return out;
}

}  // namespace dp::ctl
