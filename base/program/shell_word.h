#pragma once

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace dp {

// The text as one word of a command line in bash and zsh: in quotes, if either would read it in
// another way. zsh takes the brackets of an IPv6 address for a pattern.
inline std::string ShellWord(absl::string_view text) {
  const auto is_plain = [](char c) {
    return absl::ascii_isalnum(c) || absl::string_view("@._-:/").find(c) != absl::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

}  // namespace dp
