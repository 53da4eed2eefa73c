#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/dpctl/view/json_writer.h"

// How dpctl shows a time: RFC 3339 in UTC. Pure.

namespace dp::ctl {

// For people, in whole seconds.
inline std::string TimeText(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

inline void WriteTime(absl::string_view key, absl::Time time, JsonWriter& json) {
  json.Field(key, absl::FormatTime(absl::RFC3339_full, time, absl::UTCTimeZone()));
}

}  // namespace dp::ctl
