#include "client/dpctl/json_writer.h"

#include "absl/strings/str_format.h"

namespace dp::ctl {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

// The length of the UTF-8 sequence at the start of `text`; 0 where it is broken.
size_t SequenceLength(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80   ? 1
                        : lead < 0xC2 ? 0
                        : lead < 0xE0 ? 2
                        : lead < 0xF0 ? 3
                        : lead < 0xF5 ? 4
                                      : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  // Overlong forms, surrogates, and what lies beyond Unicode.
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;
  if (lead == 0xED && byte(1) > 0x9F) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

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
      return absl::StrFormat("\\u%04x", static_cast<unsigned>(c));
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
    const size_t length = SequenceLength(value);
    const char c = value[0];
    if (length == 0) {
      out_ << kReplacement;
    } else if (length == 1 && (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\')) {
      out_ << Escaped(c);
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
