#include "base/variable_pattern.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "base/name.h"

namespace dp {
namespace {

bool MayBeSecret(absl::string_view name) {
  const std::string upper = absl::AsciiStrToUpper(name);
  return std::any_of(std::begin(kSecretWords), std::end(kSecretWords),
                     [&upper](absl::string_view word) { return absl::StrContains(upper, word); });
}

}  // namespace

bool IsVariablePattern(absl::string_view text) {
  const bool prefix = absl::ConsumeSuffix(&text, "*");
  return (prefix && text.empty()) || IsVariableName(text);
}

bool MatchesVariable(absl::string_view name, absl::string_view pattern) {
  if (!absl::ConsumeSuffix(&pattern, "*")) return name == pattern;
  return absl::StartsWith(name, pattern) && IsVariableName(name) && !MayBeSecret(name);
}

}  // namespace dp
