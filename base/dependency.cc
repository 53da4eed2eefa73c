#include "base/dependency.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace dp {

absl::StatusOr<Dependency> ParseDependency(absl::string_view text) {
  absl::string_view number = text;
  const bool any = absl::ConsumePrefix(&number, "any:");
  if (!any) absl::ConsumePrefix(&number, "ok:");
  uint64_t id = 0;
  if (absl::SimpleAtoi(number, &id) && id > 0) return Dependency{JobId(id), !any};
  return absl::InvalidArgumentError(absl::StrCat(
      "is \"", text, "\"; expected a job's number, as 7 or ok:7 (with success), or any:7"));
}

}  // namespace dp
