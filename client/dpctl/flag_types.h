#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dp::ctl {

// Adds a flag such as "90s" or "1h30m"; a number other than 0 needs its unit.
CLI::Option* AddDuration(CLI::App& app, const std::string& flag, absl::Duration& value,
                         const std::string& help);

// Adds a flag for a whole number from 0 on.
CLI::Option* AddNumber(CLI::App& app, const std::string& flag, uint64_t& value,
                       const std::string& help);

// Adds a flag for the priority of a job, within its limits.
CLI::Option* AddPriority(CLI::App& app, const std::string& flag, std::optional<int>& value);

// Parses "0,2-5" into 0 2 3 4 5. Errors: InvalidArgument names the part that is no rank or range.
absl::StatusOr<std::vector<int>> ParseRanks(absl::string_view text);

// For CLI11's check: the error for an empty value, which would otherwise count as not given.
std::string WhyEmpty(const std::string& value);

// Adds a flag for a start time: a duration ago, as "5m", or a time in the form of RFC 3339, as
// "2026-11-21T19:10:00Z". `value` is the text; ReadSince reads it.
CLI::Option* AddSince(CLI::App& app, const std::string& flag, std::string& value,
                      const std::string& help);

// The time that `text` stands for at the time `now`. Errors: InvalidArgument names the text.
absl::StatusOr<absl::Time> ReadSince(const std::string& text, absl::Time now);

}  // namespace dp::ctl
