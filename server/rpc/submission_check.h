#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/dependency.h"
#include "server/access/admission.h"
#include "server/core/command.h"
#include "server/driver/driver.h"
#include "server/policy/limits.h"

namespace dp::server {

// The conditions of a submission that depend on its submitter and on the other jobs of the moment.
// They are checked before the machine gets the command, so they are no part of what a journal
// means. A copy of the admission and of a part of the command; the limits must outlive it. Use on
// the driver's thread.
class SubmissionCheck {
 public:
  SubmissionCheck(const core::SubmitJob& submit, const Admission& admission,
                  const core::Limits& limits);

  // OK for a repeated request, which makes no job. Errors: those of CheckNew.
  absl::Status operator()(const View& view) const;
  // For a submission that is no repetition, whatever its request id.
  // Errors:
  // - ResourceExhausted the user has too many unfinished jobs;
  // - InvalidArgument the job waits for one that the submitter may not see, as for an unknown one.
  absl::Status CheckNew(const View& view) const;

 private:
  absl::Status CheckSeen(JobId job, const View& view) const;

  const std::string request_id_;
  const std::string user_;
  const std::vector<Dependency> after_;
  const Admission admission_;
  const core::Limits* const limits_;
};

}  // namespace dp::server
