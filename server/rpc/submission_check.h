#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/core/command.h"
#include "server/driver/driver.h"
#include "server/policy/limits.h"

namespace dp::server {

// The conditions of a submission that depend on the other jobs of the moment. They are checked
// before the machine gets the command, so they are no part of what a journal means. A copy of a
// part of the command; the limits must outlive it. Use on the driver's thread.
class SubmissionCheck {
 public:
  SubmissionCheck(const core::SubmitJob& submit, const core::Limits& limits);

  // OK for a repeated request, which makes no job. Errors: those of CheckNew.
  absl::Status operator()(const View& view) const;
  // For a submission that is no repetition, whatever its request id.
  // Errors: ResourceExhausted the user has too many unfinished jobs.
  absl::Status CheckNew(const View& view) const;

 private:
  const std::string request_id_;
  const std::string user_;
  const core::Limits* const limits_;
};

}  // namespace dp::server
