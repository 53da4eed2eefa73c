#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace dp::ctl {

// Adds a flag for a start time: a duration ago, as "5m", or a time in the form of RFC 3339, as
// "2026-11-21T19:10:00Z". `value` is the text; ReadSince reads it.
CLI::Option* AddSince(CLI::App& app, const std::string& flag, std::string& value,
                      const std::string& help);

// The time that `text` stands for at the time `now`. Errors: InvalidArgument names the text.
absl::StatusOr<absl::Time> ReadSince(const std::string& text, absl::Time now);

}  // namespace dp::ctl
