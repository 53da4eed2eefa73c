#pragma once

#include <string>

#include "absl/strings/str_format.h"
#include "base/random.h"

namespace dp::ctl {

// Names one request for ever, so that the coordinator knows its repetition.
inline std::string NewRequestId() {
  return absl::StrFormat("dpctl-%016x%016x", EntropySeed(), EntropySeed());
}

}  // namespace dp::ctl
