#include "base/data/text/json_numbers.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp::data {
namespace {

bool IsHighSurrogate(uint32_t code) { return code >= 0xd800 && code < 0xdc00; }
bool IsLowSurrogate(uint32_t code) { return code >= 0xdc00 && code < 0xe000; }

void AppendUtf8(uint32_t code, std::string& text) {
  if (code < 0x80) {
    text += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  text += static_cast<char>((0xff00 >> (more + 1) & 0xff) | code >> (6 * more));
  for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (code >> (6 * i) & 0x3f));
}

class JsonNumbers {
 public:
  explicit JsonNumbers(absl::string_view json) : json_(json) {}

  absl::StatusOr<std::vector<std::pair<std::string, int64_t>>> Parse() {
    std::vector<std::pair<std::string, int64_t>> members;
    DP_RETURN_IF_ERROR(Take('{'));
    if (Next() == '}') return End(std::move(members));
    while (true) {
      DP_ASSIGN_OR_RETURN(std::string name, Text());
      DP_RETURN_IF_ERROR(Take(':'));
      DP_ASSIGN_OR_RETURN(const int64_t number, Number());
      members.emplace_back(std::move(name), number);
      if (Next() != ',') return End(std::move(members));
      DP_RETURN_IF_ERROR(Take(','));
    }
  }

 private:
  // The next character that is no space; 0 at the end.
  char Next() {
    while (at_ < json_.size() && absl::ascii_isspace(static_cast<unsigned char>(json_[at_]))) ++at_;
    return at_ < json_.size() ? json_[at_] : '\0';
  }

  absl::Status Take(char wanted) {
    if (Next() != wanted || at_ == json_.size())
      return Wrong(absl::StrCat("'", std::string(1, wanted), "'"));
    ++at_;
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::pair<std::string, int64_t>>> End(
      std::vector<std::pair<std::string, int64_t>> members) {
    DP_RETURN_IF_ERROR(Take('}'));
    Next();
    if (at_ < json_.size()) return Wrong("the end");
    return members;
  }

  absl::Status Wrong(absl::string_view expected) const {
    return absl::InvalidArgumentError(
        absl::StrCat("byte ", at_, ": expected ", expected, " of a JSON object of whole numbers"));
  }

  absl::StatusOr<int64_t> Number() {
    Next();
    size_t end = at_;
    while (end < json_.size() && absl::ascii_isdigit(static_cast<unsigned char>(json_[end]))) ++end;
    int64_t number = 0;
    if (!absl::SimpleAtoi(json_.substr(at_, end - at_), &number)) return Wrong("a whole number");
    at_ = end;
    return number;
  }

  absl::StatusOr<std::string> Text() {
    DP_RETURN_IF_ERROR(Take('"'));
    std::string text;
    while (at_ < json_.size()) {
      const char c = json_[at_];
      if (static_cast<unsigned char>(c) < 0x20) break;
      ++at_;
      if (c == '"') return text;
      if (c != '\\') {
        text += c;
      } else {
        DP_RETURN_IF_ERROR(Escape(text));
      }
    }
    return Wrong("the rest of a name");
  }

  absl::Status Escape(std::string& text) {
    constexpr absl::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
    const char name = at_ < json_.size() ? json_[at_] : '\0';
    if (name == 'u') return CodeEscape(text);
    const size_t found = at_ < json_.size() ? kNames.find(name) : absl::string_view::npos;
    if (found == absl::string_view::npos) return Wrong("an escape");
    text += kValues[found];
    ++at_;
    return absl::OkStatus();
  }

  // Code points above U+FFFF are two escapes.
  absl::Status CodeEscape(std::string& text) {
    DP_ASSIGN_OR_RETURN(uint32_t code, CodeUnit());
    if (IsHighSurrogate(code) && json_.substr(at_, 2) == "\\u") {
      ++at_;
      DP_ASSIGN_OR_RETURN(const uint32_t low, CodeUnit());
      if (!IsLowSurrogate(low)) return Wrong("the second half of a character");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (IsHighSurrogate(code) || IsLowSurrogate(code)) return Wrong("both halves of a character");
    AppendUtf8(code, text);
    return absl::OkStatus();
  }

  // Four hexadecimal digits behind a 'u'.
  absl::StatusOr<uint32_t> CodeUnit() {
    uint32_t unit = 0;
    const absl::string_view digits = json_.substr(at_ + 1, 4);
    const bool all = absl::c_all_of(
        digits, [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); });
    if (!all || digits.size() < 4 || !absl::SimpleHexAtoi(digits, &unit)) {
      return Wrong("four hexadecimal digits");
    }
    at_ += 5;
    return unit;
  }

  const absl::string_view json_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<std::pair<std::string, int64_t>>> ParseJsonNumbers(
    absl::string_view json) {
  return JsonNumbers(json).Parse();
}

}  // namespace dp::data
