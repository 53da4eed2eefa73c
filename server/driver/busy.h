#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace dp::server {

// The answer of a full queue. `queued` says how much the queue holds.
inline absl::Status Busy(const std::string& queued) {
  return absl::UnavailableError(
      absl::StrCat("the coordinator has ", queued, " queued; try again later"));
}

}  // namespace dp::server
