#pragma once

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "base/limits.h"

namespace dp {

// The rule for names of jobs and queues, in words.
inline constexpr char kNameRule[] =
    "1 to 63 of a-z, 0-9 and '-', with a letter or digit at both ends";

inline bool IsName(absl::string_view name) {
  const auto at_end = [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c); };
  const auto within = [&](char c) { return at_end(c) || c == '-'; };
  return !name.empty() && name.size() <= kJobNameBytesMax && at_end(name.front()) &&
         at_end(name.back()) && std::all_of(name.begin(), name.end(), within);
}

// The rule for names of environment variables that every program can read, in words.
inline constexpr char kVariableNameRule[] =
    "letters, digits, '_', '-' and '.', and does not begin with a digit";

inline bool IsVariableName(absl::string_view name) {
  const auto within = [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
  };
  return !name.empty() && !absl::ascii_isdigit(name.front()) &&
         std::all_of(name.begin(), name.end(), within);
}

// Whether a text of a caller, such as a user's name, has no control characters. Logs and terminals
// show such texts.
inline bool IsPlainText(absl::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return absl::ascii_iscntrl(c); });
}

// Journals of earlier releases hold such names of workers, some of which IsWorkerName rejects.
inline bool IsWorkerNameOnRecord(absl::string_view name) {
  constexpr size_t kBytesMax = 253;
  return !name.empty() && name.size() <= kBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_';
         });
}

// The rule for names of workers, in words. Every host name fits, also the longest. No name is a
// flag or a directory.
inline constexpr char kWorkerNameRule[] =
    "1 to 253 letters, digits, '-', '.' and '_', and neither '-' nor '.' at the beginning";

inline bool IsWorkerName(absl::string_view name) {
  return IsWorkerNameOnRecord(name) && name.front() != '-' && name.front() != '.';
}

}  // namespace dp
