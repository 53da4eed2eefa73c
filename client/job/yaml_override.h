#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "yaml-cpp/yaml.h"

namespace dp::client {

// Applies "path=value" to the tree below `root`, and returns the path with list elements as [0],
// which the user may write as .0 too. The value is YAML. Missing
// mappings on the way are made; an element of a list must exist.
// Errors: InvalidArgument no path, no '=', a value that is no YAML, an element that does not exist.
absl::StatusOr<std::string> ApplyOverride(absl::string_view override, YAML::Node root);

}  // namespace dp::client
