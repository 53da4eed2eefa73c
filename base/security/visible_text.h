#pragma once

#include <string_view>

namespace dp::security {

// The rule for IsVisibleText, in words.
inline constexpr char kVisibleTextRule[] =
    "UTF-8 without characters that cannot be seen, and without a space at either end";

// Whether the text is UTF-8, each of its characters can be seen, and spaces stand only inside. Does
// not detect letters of two scripts that look alike. Rejects control characters, characters without
// width, marks of the writing direction, and spaces other than that of ASCII. Pure.
bool IsVisibleText(std::string_view text);

}  // namespace dp::security
