#pragma once

#include "absl/strings/string_view.h"

// How flags name environment variables: NAME, or PREFIX* for all that begin so. PREFIX* never means
// a variable whose name has a word for a secret in it, such as TOKEN; that one must be spelled out.

namespace dp {

inline constexpr absl::string_view kSecretWords[] = {
    "TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "AUTH"};

inline constexpr char kVariablePatternRule[] =
    "the name of a variable, or its beginning and a *, as in WANDB_*";

// Whether `text` follows the rule.
bool IsVariablePattern(absl::string_view text);

// Whether the pattern means the variable of this name.
bool MatchesVariable(absl::string_view name, absl::string_view pattern);

}  // namespace dp
