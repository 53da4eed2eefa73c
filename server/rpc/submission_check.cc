#include "server/rpc/submission_check.h"

#include "server/core/coordinator.h"
#include "server/core/job_registry.h"

namespace dp::server {

SubmissionCheck::SubmissionCheck(const core::SubmitJob& submit, const core::Limits& limits)
    : request_id_(submit.request_id), user_(submit.user), limits_(&limits) {}

absl::Status SubmissionCheck::operator()(const View& view) const {
  const core::JobRegistry& jobs = view.coordinator.state().jobs;
  return jobs.FindRequest(request_id_).has_value() ? absl::OkStatus() : CheckNew(view);
}

absl::Status SubmissionCheck::CheckNew(const View& view) const {
  const core::JobRegistry& jobs = view.coordinator.state().jobs;
  return limits_->CheckUnfinished(user_, jobs.unfinished_of(user_));
}

}  // namespace dp::server
