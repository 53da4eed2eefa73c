#include "client/job/field_source.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace dp::client {
namespace {

// "a.b[1]" -> "a.b" -> "a" -> "".
std::string Parent(const std::string& path) {
  const size_t end = path.find_last_of(".[");
  return end == std::string::npos ? "" : path.substr(0, end);
}

}  // namespace

std::string FieldSource::OverrideOf(std::string path) const {
  while (!path.empty() && !overrides_.contains(path)) path = Parent(path);
  return path;
}

// A field that only an override has set has no place in the file, nor have the fields around it
// that were made for it.
std::string FieldSource::OverrideBelow(const std::string& path) const {
  const auto next = overrides_.lower_bound(path);
  return next != overrides_.end() && absl::StartsWith(*next, path) ? *next : "";
}

absl::Status FieldSource::Error(const std::string& path, absl::string_view what) const {
  // An element as a whole, such as a layer, is wrong: an override inside it has changed it.
  if (absl::EndsWith(path, "]") && !OverrideBelow(path).empty()) return ErrorAt(path, {}, what);
  for (std::string around = path; !around.empty(); around = Parent(around)) {
    const auto place = places_.find(around);
    if (place != places_.end()) return ErrorAt(path, place->second, what);
  }
  return ErrorAt(path, {}, what);
}

absl::Status FieldSource::ErrorAt(const std::string& path, Place place,
                                  absl::string_view what) const {
  if (const auto name = names_.find(path); name != names_.end()) {
    absl::ConsumePrefix(&what, path);
    return absl::InvalidArgumentError(absl::StrCat(name->second, what));
  }
  std::string override = OverrideOf(path);
  if (override.empty() && place.line == 0) override = OverrideBelow(path);
  if (!override.empty())
    return absl::InvalidArgumentError(absl::StrCat("--set ", override, ": ", what));
  if (place.line == 0) return absl::InvalidArgumentError(absl::StrCat(file_, ": ", what));
  return absl::InvalidArgumentError(
      absl::StrCat(file_, ":", place.line, ":", place.column, ": ", what));
}

}  // namespace dp::client
