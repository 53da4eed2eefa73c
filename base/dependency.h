#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/field_list.h"
#include "base/id.h"

namespace dp {

// A job that must be over before another may start.
struct Dependency {
  JobId job;
  bool must_succeed = true;

  using Fields = FieldList<&Dependency::job, &Dependency::must_succeed>;

  bool operator==(const Dependency&) const = default;
};

// A job with more dependencies than this is a mistake.
inline constexpr size_t kDependenciesMax = 100;

// "7" or "ok:7": the job must succeed; "any:7": it may end in any way.
// Errors: InvalidArgument `is "all:7"; expected ...`; the caller puts the field's name before it.
absl::StatusOr<Dependency> ParseDependency(absl::string_view text);

}  // namespace dp
