#pragma once

#include "absl/status/status.h"
#include "dp/errors.h"

// The kind of an exception by the code of a status, for both libraries.

namespace dp::library {

// Where a status comes from; the same code means different things there.
enum class ErrorSource { kCaller, kStore, kOperation };

inline distributed::ErrorKind KindOf(absl::StatusCode code, ErrorSource source) {
  using distributed::ErrorKind;
  const bool operation = source == ErrorSource::kOperation;
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return operation ? ErrorKind::kMismatch : ErrorKind::kInvalidArgument;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return ErrorKind::kInvalidArgument;
    case absl::StatusCode::kUnimplemented:
      return ErrorKind::kUnsupported;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
      return ErrorKind::kWrongState;
    case absl::StatusCode::kDeadlineExceeded:
      return ErrorKind::kTimeout;
    case absl::StatusCode::kUnavailable:
      return operation ? ErrorKind::kPeerGone : ErrorKind::kUnreachable;
    case absl::StatusCode::kDataLoss:
      return ErrorKind::kUnreachable;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
      return ErrorKind::kAborted;
    case absl::StatusCode::kResourceExhausted:
      return ErrorKind::kLimit;
    default:
      return ErrorKind::kInternal;
  }
}

}  // namespace dp::library
