#pragma once

#include "absl/strings/string_view.h"
#include "base/program/log.h"

namespace dp {

// Writes `line` to standard error with time and severity. A program has one definition of it:
// log_sink.cc, or that of libdp_distributed, which links no log library. Any thread.
void WriteLogLine(Severity severity, absl::string_view line);

}  // namespace dp
