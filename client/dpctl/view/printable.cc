#include "client/dpctl/view/printable.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dp::ctl {
namespace {

// U+0080 to U+009F, which some terminals obey like an escape character.
bool IsC1(absl::string_view text, size_t at) {
  return at + 1 < text.size() && text[at] == '\xc2' &&
         (static_cast<unsigned char>(text[at + 1]) & 0xe0) == 0x80;
}

}  // namespace

std::string Printable(absl::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n' || c == '\r' || c == '\t') {
      out += absl::CEscape(absl::string_view(&c, 1));
    } else if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppend(&out, absl::StrFormat("\\x%02x", static_cast<unsigned char>(c)));
    } else if (IsC1(text, at)) {
      absl::StrAppend(&out, absl::StrFormat("\\u%04x", static_cast<unsigned char>(text[++at])));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace dp::ctl
