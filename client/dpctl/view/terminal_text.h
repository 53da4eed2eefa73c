#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace dp::ctl {

// Makes the output of a rank harmless on a terminal. Colours (SGR sequences), tabs, line breaks and
// carriage returns stay. Every other control character could move the cursor, set the title or
// answer for the keyboard, so it becomes "\x1b", as in Printable. A colour ends with the text.
//
// `cut`, unless null, gets the beginning of a sequence or character at the end of the text. The
// next piece has its rest, so put it before that piece. It has at most kCutBytesMax. Pure.
std::string TerminalText(absl::string_view text, std::string* cut = nullptr);

// Longer sequences of parameters are no colours.
inline constexpr size_t kCutBytesMax = 64;

}  // namespace dp::ctl
