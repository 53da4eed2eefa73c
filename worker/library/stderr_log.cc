#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/program/log_sink.h"

// The log of libdp_distributed, which links no log library: one line at a time to standard error.

namespace dp {

void WriteLogLine(Severity severity, absl::string_view line) {
  const std::string whole =
      absl::StrCat(severity == Severity::kInfo ? "dp info: " : "dp warning: ", line, "\n");
  (void)!write(STDERR_FILENO, whole.data(), whole.size());  // there is nowhere to report a failure
}

}  // namespace dp
