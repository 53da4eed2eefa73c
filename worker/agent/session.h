#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/id.h"

namespace dp::worker {

// What every call of a registered daemon carries.
struct Session {
  uint64_t worker_id = 0;
  Incarnation incarnation;

  bool operator==(const Session&) const = default;
};

// The coordinator understood the call and will never do it, however often it is asked. Everything
// else (no answer, overload, a race) is worth another try.
inline bool IsRefusal(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ||
         absl::IsInvalidArgument(status) || absl::IsUnimplemented(status);
}

}  // namespace dp::worker
