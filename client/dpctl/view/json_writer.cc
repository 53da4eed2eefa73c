#include "client/dpctl/view/json_writer.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "base/utf8.h"

namespace dp::ctl {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

// DEL, and U+0080 to U+009F: JSON may have them, but some terminals obey them.
bool IsControl(absl::string_view character) {
  const auto last = static_cast<unsigned char>(character.back());
  return character == "\x7f" || (character.size() == 2 && character[0] == '\xc2' && last < 0xa0);
}

// Takes the last byte of an ASCII character, or of one that IsControl.
std::string Escaped(char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    default:
      return absl::StrFormat("\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
}

}  // namespace

void JsonWriter::Key(absl::string_view key) {
  String(key);
  out_ << (style_ == Style::kOneLine ? ":" : ": ");
  after_key_ = true;
}

void JsonWriter::String(absl::string_view value) {
  BeforeValue();
  out_ << '"';
  while (!value.empty()) {
    const size_t length = Utf8SequenceLength({value.data(), value.size()});
    const char c = value[0];
    if (length == 0) {
      out_ << kReplacement;
    } else if (length == 1 && (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\')) {
      out_ << Escaped(c);
    } else if (IsControl(value.substr(0, length))) {
      out_ << Escaped(value[length - 1]);
    } else {
      out_ << value.substr(0, length);
    }
    value.remove_prefix(length == 0 ? 1 : length);
  }
  out_ << '"';
}

void JsonWriter::Int(int64_t value) {
  BeforeValue();
  out_ << value;
}

void JsonWriter::UInt(uint64_t value) {
  BeforeValue();
  out_ << value;
}

void JsonWriter::Double(double value) {
  if (!std::isfinite(value)) return Null();
  BeforeValue();
  out_ << absl::StrFormat("%.9g", value);
}

void JsonWriter::Exact(double value) {
  if (!std::isfinite(value)) return Null();
  BeforeValue();
  double read = 0;
  const std::string few = absl::StrFormat("%.15g", value);
  out_ << (absl::SimpleAtod(few, &read) && read == value ? few : absl::StrFormat("%.17g", value));
}

void JsonWriter::Bool(bool value) {
  BeforeValue();
  out_ << (value ? "true" : "false");
}

void JsonWriter::Null() {
  BeforeValue();
  out_ << "null";
}

void JsonWriter::Begin(char bracket) {
  BeforeValue();
  out_ << bracket;
  ++depth_;
  first_ = true;
}

void JsonWriter::End(char bracket) {
  --depth_;
  if (!first_) NewLine();
  out_ << bracket;
  first_ = false;
  if (depth_ == 0) out_ << '\n';
}

void JsonWriter::BeforeValue() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (!first_) out_ << ',';
  first_ = false;
  if (depth_ > 0) NewLine();
}

void JsonWriter::NewLine() {
  if (style_ == Style::kIndented) out_ << '\n' << std::string(2 * depth_, ' ');
}

}  // namespace dp::ctl
