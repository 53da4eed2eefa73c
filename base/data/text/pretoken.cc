#include "base/data/text/pretoken.h"

#include "absl/strings/match.h"
#include "base/data/text/unicode_class.h"

namespace dp::data {
namespace {

constexpr absl::string_view kContractions[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};

CharClass FirstClass(absl::string_view text) { return ClassOf(FirstCharacter(text).code); }

// A run of characters of one class at the start of a text.
struct Run {
  size_t bytes = 0;
  size_t last = 0;  // bytes of its last character
};

Run RunOf(CharClass wanted, absl::string_view text) {
  Run run;
  while (run.bytes < text.size()) {
    const Character next = FirstCharacter(text.substr(run.bytes));
    if (ClassOf(next.code) != wanted) break;
    run.bytes += next.bytes;
    run.last = next.bytes;
  }
  return run;
}

// Spaces before a word leave their last one to it. A single one that the word cannot take, such as
// a line's end, stands alone.
size_t SpacesLength(absl::string_view text) {
  const Run spaces = RunOf(CharClass::kSpace, text);
  const bool at_end = spaces.bytes == text.size();
  return at_end || spaces.bytes == spaces.last ? spaces.bytes : spaces.bytes - spaces.last;
}

}  // namespace

size_t PretokenLength(absl::string_view text) {
  for (const absl::string_view contraction : kContractions) {
    if (absl::StartsWith(text, contraction)) return contraction.size();
  }
  const size_t space = text[0] == ' ' ? 1 : 0;
  const absl::string_view word = text.substr(space);
  if (word.empty() || FirstClass(word) == CharClass::kSpace) return SpacesLength(text);
  return space + RunOf(FirstClass(word), word).bytes;
}

}  // namespace dp::data
