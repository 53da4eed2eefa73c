#include "tests/scenarios/line.h"
#include "absl/strings/numbers.h"
#include "base/check.h"

namespace dp::scenarios {
namespace {

// Removes the next word from `text` and returns it. Quotes keep spaces together and are dropped.
std::string TakeWord(absl::string_view& text) {
  std::string word;
  bool quoted = false;
  while (!text.empty() && (quoted || text.front() != ' ')) {
    if (text.front() == '"') {
      quoted = !quoted;
    } else {
      word += text.front();
    }
    text.remove_prefix(1);
  }
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return word;
}

}  // namespace

Line Line::Parse(absl::string_view text) {
  Line line;
  while (!text.empty()) {
    const std::string word = TakeWord(text);
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      line.words.push_back(word);
    } else {
      line.options[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  return line;
}

std::string Line::option(const std::string& key, const std::string& otherwise) const {
  const auto it = options.find(key);
  return it == options.end() ? otherwise : it->second;
}

int Line::number(const std::string& key, int otherwise) const {
  const auto it = options.find(key);
  if (it == options.end()) return otherwise;
  int number = 0;
  DP_CHECK(absl::SimpleAtoi(it->second, &number));
  return number;
}

}  // namespace dp::scenarios
