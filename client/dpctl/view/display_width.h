#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace dp::ctl {

// How many columns of a terminal a line of text takes, without control characters: East Asian wide
// characters and emoji take two, combining marks none. A byte that is not UTF-8 takes one. The C
// library's wcwidth depends on the locale, which dpctl does not set. Pure.
size_t DisplayWidth(absl::string_view text);

}  // namespace dp::ctl
