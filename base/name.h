#pragma once

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "base/limits.h"

namespace dp {

// What names of jobs and queues look like.
inline constexpr char kNameRule[] =
    "1 to 63 of a-z, 0-9 and '-', with a letter or digit at both ends";

inline bool IsName(absl::string_view name) {
  const auto at_end = [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c); };
  const auto within = [&](char c) { return at_end(c) || c == '-'; };
  return !name.empty() && name.size() <= kJobNameBytesMax && at_end(name.front()) &&
         at_end(name.back()) && std::all_of(name.begin(), name.end(), within);
}

}  // namespace dp
