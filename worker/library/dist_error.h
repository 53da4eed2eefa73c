#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dp/errors.h"
#include "worker/library/error_kind.h"

// The one place where the library's statuses become exceptions.

namespace dp::library {

// The exception that `status` becomes. Its message is `context`, the status' message and, for
// errors of operations, what to do about them.
distributed::DistError DistErrorOf(const absl::Status& status, ErrorSource source,
                                   absl::string_view context = "");

// The status of an operation that `error` ended.
absl::Status StatusOfDistError(const distributed::DistError& error);

// Throw unless the status is OK.
void OrThrow(const absl::Status& status, ErrorSource source, absl::string_view context = "");
template <typename T>
T OrThrow(absl::StatusOr<T> value, ErrorSource source, absl::string_view context = "") {
  OrThrow(value.status(), source, context);
  return *std::move(value);
}

}  // namespace dp::library
