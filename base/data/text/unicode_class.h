#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace dp::data {

// The classes that tokenizers tell apart: Unicode's general categories L and N, its property
// White_Space, and all else.
enum class CharClass { kLetter, kNumber, kSpace, kOther };

CharClass ClassOf(char32_t code);

// One character of a text.
struct Character {
  char32_t code = 0;
  size_t bytes = 1;
};

// The first character of `text`, which is not empty. A byte that begins no well-formed UTF-8 is a
// character for itself, U+FFFD, which is kOther. Pure.
Character FirstCharacter(absl::string_view text);

}  // namespace dp::data
