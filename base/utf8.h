#pragma once

#include <cstddef>
#include <string_view>

// Bytes as the UTF-8 that they may be (RFC 3629). Pure.

namespace dp {

// Length of the well-formed sequence at the start of `text`, which is not empty; 0 where there is
// none.
size_t Utf8SequenceLength(std::string_view text);

// Whether all of it is well-formed.
bool IsUtf8(std::string_view text);

// At most the first `bytes_max` of UTF-8 text, without a part of a character at the end.
std::string_view Utf8Prefix(std::string_view text, size_t bytes_max);

}  // namespace dp
