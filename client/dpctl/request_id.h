#pragma once

#include <string>

#include "absl/strings/str_format.h"
#include "base/random.h"

namespace dp::ctl {

// A unique name of one request, by which the coordinator recognizes a repetition.
inline std::string NewRequestId() {
  return absl::StrFormat("dpctl-%016x%016x", EntropySeed(), EntropySeed());
}

}  // namespace dp::ctl
