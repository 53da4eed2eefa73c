#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "yaml-cpp/yaml.h"

namespace dp::client {

// Sets what "path=value" says in the tree below `root`, and returns the path. The value is YAML; a
// mapping on the way is made where it is missing, an element of a list must be there.
// Errors: InvalidArgument no path, no '=', a value that is no YAML, an element that is not there.
absl::StatusOr<std::string> ApplyOverride(absl::string_view override, YAML::Node root);

}  // namespace dp::client
