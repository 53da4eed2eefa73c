#pragma once

#include <cxxabi.h>

#include <exception>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "dp/errors.h"
#include "worker/library/error_kind.h"

// The one place where the library's statuses become exceptions, and other things that the program
// throws.

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

// For errors about a thing that is no std::exception.
inline constexpr absl::string_view kUnknownException = "an exception of unknown type";
// The remedy.
inline constexpr absl::string_view kThrowAnother =
    "; throw a std::exception, whose text the error then has";

// Calls a function of the program, which errors name as `what`. Its std::exceptions pass. Programs
// that catch these only must not end because of anything else, so that becomes a kProgramFailed.
template <typename Call>
auto CallProgram(absl::string_view what, const Call& call) {
  try {
    return call();
  } catch (const std::exception&) {
    throw;
  } catch (const abi::__forced_unwind&) {  // the thread ends by pthread_exit
    throw;
  } catch (...) {
    throw distributed::DistError(distributed::ErrorKind::kProgramFailed,
                                 absl::StrCat(what, " threw ", kUnknownException, kThrowAnother));
  }
}

}  // namespace dp::library
