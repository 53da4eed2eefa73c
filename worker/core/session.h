#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/id.h"

namespace dp::worker {

// Identifies a registered daemon in its calls.
struct Session {
  uint64_t worker_id = 0;
  Incarnation incarnation;

  bool operator==(const Session&) const = default;
};

// Whether the coordinator understood the call and rejects it for good. Any other error (no answer,
// overload, a race) is worth a retry.
inline bool IsRefusal(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ||
         absl::IsInvalidArgument(status) || absl::IsUnimplemented(status);
}

}  // namespace dp::worker
