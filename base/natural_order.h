#pragma once

#include "absl/strings/string_view.h"

namespace dp {

// Orders names as people do: node2 comes before node10, since runs of digits count as numbers.
// Names that are equal in this sense (node02, node2) are ordered as text.
bool NaturallyLess(absl::string_view a, absl::string_view b);

}  // namespace dp
