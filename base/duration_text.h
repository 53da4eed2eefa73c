#pragma once

#include <string>

#include "absl/time/time.h"

namespace dp {

// As absl::FormatDuration writes it, but no time at all has its unit, too.
inline std::string DurationText(absl::Duration duration) {
  return duration == absl::ZeroDuration() ? "0s" : absl::FormatDuration(duration);
}

}  // namespace dp
