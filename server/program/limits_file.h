#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/policy/limits.h"

namespace dp::server {

// The limits of users and queues, one line each; '*' is for names without a line of their own:
//
//   # at a time
//   user *       slots=16 jobs=4 unfinished=500
//   user alice   slots=32
//   queue batch  slots=64
//
// Errors: InvalidArgument names file, line and what is expected; NotFound (only ReadLimits) the
// file cannot be read.
absl::StatusOr<core::Limits> ParseLimits(absl::string_view text, const std::string& name);
absl::StatusOr<core::Limits> ReadLimits(const std::string& file);

}  // namespace dp::server
