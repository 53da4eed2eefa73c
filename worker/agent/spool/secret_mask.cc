#include "worker/agent/spool/secret_mask.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/limits.h"

namespace dp::worker {
namespace {

// Longer lines are hidden in pieces of this size, so that little context decides.
constexpr size_t kPieceBytesMax = 1 << 10;
// The shortest pattern; its hash takes all of it.
constexpr size_t kPatternBytesMin = kSecretValueBytesMin;
static_assert(kPatternBytesMin == sizeof(uint32_t));

constexpr char kHidden = '*';

size_t CommonBytes(std::string_view a, std::string_view b) {
  const auto [end, ignored] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(end - a.begin());
}

}  // namespace

SecretMask::SecretMask(const std::vector<std::string>& values) {
  std::vector<std::string> texts;
  for (const std::string& value : values) {
    for (const absl::string_view line : absl::StrSplit(value, absl::ByAnyChar("\r\n"))) {
      const absl::string_view bare = absl::StripAsciiWhitespace(line);
      Add({bare.data(), bare.size()}, &texts);
    }
  }
  if (texts.empty()) return;
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  begins_.resize(kHashes);
  for (std::string& text : texts) {
    longest_ = std::max(longest_, text.size());
    begins_[HashOf(text.data())] = true;
    int shorter = static_cast<int>(patterns_.size()) - 1;
    while (shorter != kNone && !text.starts_with(patterns_[shorter].text)) {
      shorter = patterns_[shorter].shorter;
    }
    patterns_.push_back({std::move(text), shorter});
  }
}

SecretMask SecretMask::OfEverything() {
  SecretMask mask;
  mask.everything_ = true;
  return mask;
}

// The last piece ends where the line does, so no piece is short.
void SecretMask::Add(std::string_view line, std::vector<std::string>* texts) const {
  if (line.size() < kPatternBytesMin) return;
  for (size_t begin = 0; begin + kPieceBytesMax < line.size(); begin += kPieceBytesMax) {
    texts->emplace_back(line.substr(begin, kPieceBytesMax));
  }
  texts->emplace_back(line.substr(line.size() - std::min(line.size(), kPieceBytesMax)));
}

size_t SecretMask::HashOf(const char* bytes) {
  uint32_t number = 0;
  std::memcpy(&number, bytes, sizeof(number));
  return (number * 2654435761U) >> 16;
}

// The last pattern that is no greater than the text begins with every pattern with which the text
// begins.
size_t SecretMask::LongestAt(std::string_view text) const {
  const auto greater =
      std::upper_bound(patterns_.begin(), patterns_.end(), text,
                       [](std::string_view a, const Pattern& b) { return a < b.text; });
  if (greater == patterns_.begin()) return 0;
  const size_t common = CommonBytes(text, std::prev(greater)->text);
  auto found = static_cast<int>(greater - patterns_.begin()) - 1;
  while (found != kNone && patterns_[found].text.size() > common) found = patterns_[found].shorter;
  return found == kNone ? 0 : patterns_[found].text.size();
}

size_t SecretMask::EndBytes(std::string_view text) const {
  size_t longest = 0;
  for (const Pattern& pattern : patterns_) {
    const std::string_view whole = pattern.text;
    for (size_t bytes = std::min(whole.size() - 1, text.size()); bytes > longest; --bytes) {
      if (whole.ends_with(text.substr(0, bytes))) longest = bytes;
    }
  }
  return longest;
}

size_t SecretMask::OpenBytes(std::string_view text) const {
  for (size_t bytes = std::min(reach(), text.size()); bytes > 0; --bytes) {
    const std::string_view end = text.substr(text.size() - bytes);
    const auto from =
        std::upper_bound(patterns_.begin(), patterns_.end(), end,
                         [](std::string_view a, const Pattern& b) { return a < b.text; });
    if (from != patterns_.end() && from->text.starts_with(end)) return bytes;
  }
  return 0;
}

void SecretMask::Hide(std::string* text, Cut cut) const {
  if (everything_) {
    for (char& byte : *text) {
      if (byte != '\n' && byte != '\r') byte = kHidden;
    }
  }
  if (patterns_.empty()) return;
  const std::string_view whole = *text;
  const size_t open = cut.after ? OpenBytes(whole) : 0;
  size_t hidden = cut.before ? EndBytes(whole) : 0;  // up to here
  if (hidden < kPatternBytesMin) hidden = 0;
  // A byte is replaced once no pattern that begins at or before it can be found any more.
  for (size_t at = 0; at < whole.size(); ++at) {
    if (at + kPatternBytesMin <= whole.size() && begins_[HashOf(whole.data() + at)]) {
      hidden = std::max(hidden, at + LongestAt(whole.substr(at)));
    }
    if (at < hidden) (*text)[at] = kHidden;
  }
  if (open >= kPatternBytesMin) text->replace(text->size() - open, open, open, kHidden);
}

// Each value behind its size and a line break.
std::string SecretsText(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) absl::StrAppend(&text, value.size(), "\n", value);
  return text;
}

std::optional<std::vector<std::string>> SecretsInText(const std::string& text) {
  std::vector<std::string> values;
  for (size_t at = 0; at < text.size();) {
    const size_t line = text.find('\n', at);
    size_t size = 0;
    if (line == text.npos || !absl::SimpleAtoi(text.substr(at, line - at), &size) ||
        size > text.size() - line - 1) {
      return std::nullopt;
    }
    values.push_back(text.substr(line + 1, size));
    at = line + 1 + size;
  }
  if (values.empty()) return std::nullopt;
  return values;
}

}  // namespace dp::worker
