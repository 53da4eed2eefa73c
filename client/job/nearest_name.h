#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dp::client {

// The one of `names` that `wrong` was most likely meant to be. Its distance is the fewest
// insertions, deletions, changes and swaps of letters, without case and underscores. Among equally
// near names, the one with more first letters in common wins. Empty if none is near. Pure.
std::string NearestName(absl::string_view wrong, const std::vector<std::string>& names);

}  // namespace dp::client
