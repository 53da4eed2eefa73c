#pragma once

#include <cstddef>
#include <string_view>

// Bytes that may be UTF-8 (RFC 3629). Pure.

namespace dp {

// Length of the well-formed sequence at the start of `text`, which is not empty; 0 if there is
// none.
size_t Utf8SequenceLength(std::string_view text);

// Whether all of `text` is well-formed.
bool IsUtf8(std::string_view text);

// The first `bytes_max` bytes of UTF-8 text, or fewer: cuts no character in two.
std::string_view Utf8Prefix(std::string_view text, size_t bytes_max);

}  // namespace dp
