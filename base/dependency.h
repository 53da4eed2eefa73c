#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/id.h"

namespace dp {

// A job that has to be over before another may start.
struct Dependency {
  JobId job;
  bool must_succeed = true;

  bool operator==(const Dependency&) const = default;
};

// A job with more waits for something else.
inline constexpr size_t kDependenciesMax = 100;

// "7" or "ok:7": with success; "any:7": however it ends.
// Errors: InvalidArgument `is "all:7"; expected ...`, to be put behind the field's name.
absl::StatusOr<Dependency> ParseDependency(absl::string_view text);

}  // namespace dp
