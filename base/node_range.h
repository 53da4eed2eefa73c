#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dp {

// How many workers share the ranks of a job, in launchers' notation: "2", or "1:4".
struct NodeRange {
  int min = 1;
  int max = 1;

  bool operator==(const NodeRange&) const = default;
};

// Errors: InvalidArgument "is \"4:1\"; expected ..."; the caller puts the field's name before it.
absl::StatusOr<NodeRange> ParseNodeRange(absl::string_view text);

}  // namespace dp
