#pragma once

#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dp {

enum class Severity { kInfo, kWarning, kError };

// One field of a log line. Values with spaces or quotes are quoted when printed.
struct LogField {
  LogField(absl::string_view name, const absl::AlphaNum& value)
      : name(name), value(value.Piece()) {}

  absl::string_view name;
  std::string value;
};

// Writes one line to standard error: time, severity, `event=<event>` and the fields as key=value.
// Any thread. One line per event, no prose:
//
//   Log(Severity::kInfo, "world_sealed", {{"job", 7}, {"generation", 5}, {"size", 4}});
void Log(Severity severity, absl::string_view event, std::initializer_list<LogField> fields = {});

}  // namespace dp
