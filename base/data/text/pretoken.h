#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace dp::data {

// How many bytes of `text`, which is not empty, the first match of GPT-2's pattern takes:
//
//     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// The matches cover any text. Tokens are made within them (Radford et al. 2019). Bytes that are no
// UTF-8 count as neither letters, numbers nor spaces. Pure.
size_t PretokenLength(absl::string_view text);

}  // namespace dp::data
