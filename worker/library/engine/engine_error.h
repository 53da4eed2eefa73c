#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dp/errors.h"
#include "worker/library/error_kind.h"

// The one place where statuses of libdp_engine become exceptions. libdp_distributed has its own,
// which knows of ranks.

namespace dp::library {

inline void OkOrThrow(const absl::Status& status) {
  if (status.ok()) return;
  throw distributed::DistError(KindOf(status.code(), ErrorSource::kCaller),
                               std::string(status.message()));
}

template <typename T>
T ValueOrThrow(absl::StatusOr<T> value) {
  OkOrThrow(value.status());
  return *std::move(value);
}

}  // namespace dp::library
