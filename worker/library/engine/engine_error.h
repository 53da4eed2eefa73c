#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dp/errors.h"

// The one place where statuses of libdp_engine become exceptions. libdp_distributed has its own,
// which knows of ranks.

namespace dp::library {

inline distributed::ErrorKind KindOfEngineError(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return distributed::ErrorKind::kInvalidArgument;
    case absl::StatusCode::kUnimplemented:
      return distributed::ErrorKind::kUnsupported;
    case absl::StatusCode::kFailedPrecondition:
      return distributed::ErrorKind::kWrongState;
    case absl::StatusCode::kResourceExhausted:
      return distributed::ErrorKind::kLimit;
    default:
      return distributed::ErrorKind::kInternal;
  }
}

inline void OkOrThrow(const absl::Status& status) {
  if (status.ok()) return;
  throw distributed::DistError(KindOfEngineError(status.code()), std::string(status.message()));
}

template <typename T>
T ValueOrThrow(absl::StatusOr<T> value) {
  OkOrThrow(value.status());
  return *std::move(value);
}

}  // namespace dp::library
