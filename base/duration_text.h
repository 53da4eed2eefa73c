#pragma once

#include <string>

#include "absl/time/time.h"

namespace dp {

// As absl::FormatDuration, but zero has a unit too.
inline std::string DurationText(absl::Duration duration) {
  return duration == absl::ZeroDuration() ? "0s" : absl::FormatDuration(duration);
}

}  // namespace dp
