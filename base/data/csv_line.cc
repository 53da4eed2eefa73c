#include "base/data/csv_line.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"

namespace dp::data {
namespace {

// Takes a quoted field off `rest`, which begins behind the first quote. False without an end.
bool TakeQuoted(absl::string_view& rest, std::string& field) {
  field.clear();
  while (!rest.empty()) {
    const size_t quote = rest.find('"');
    if (quote == absl::string_view::npos) return false;
    field.append(rest.data(), quote);
    rest.remove_prefix(quote + 1);
    if (!absl::ConsumePrefix(&rest, "\"")) return true;
    field += '"';
  }
  return false;
}

// Without spaces at the begin. A delimiter is none, though it may be a tab or a space.
absl::string_view WithoutIndent(absl::string_view text, char delimiter) {
  while (!text.empty() && text.front() != delimiter &&
         absl::ascii_isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  return text;
}

}  // namespace

void SkipByteOrderMark(absl::string_view& text) { absl::ConsumePrefix(&text, "\xef\xbb\xbf"); }

absl::string_view TakeCsvLine(absl::string_view& text, int64_t& number) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    absl::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!absl::StripAsciiWhitespace(line).empty()) return line;
  }
  return {};
}

bool SplitCsvLine(absl::string_view line, char delimiter, std::vector<std::string>& fields) {
  size_t count = 0;
  const auto next = [&]() -> std::string& {
    if (count == fields.size()) fields.emplace_back();
    return fields[count++];
  };
  while (true) {
    std::string& field = next();
    absl::string_view rest = WithoutIndent(line, delimiter);
    const bool quoted = delimiter != '"' && absl::ConsumePrefix(&rest, "\"");
    if (quoted) {
      if (!TakeQuoted(rest, field)) return false;
      line = rest;
    }
    const size_t end = std::min(line.find(delimiter), line.size());
    if (!quoted) {
      const absl::string_view text = absl::StripAsciiWhitespace(line.substr(0, end));
      field.assign(text.data(), text.size());
    } else if (!absl::StripAsciiWhitespace(line.substr(0, end)).empty()) {
      return false;
    }
    if (end == line.size()) break;
    line.remove_prefix(end + 1);
  }
  fields.resize(count);
  return true;
}

}  // namespace dp::data
