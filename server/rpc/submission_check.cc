#include "server/rpc/submission_check.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/coordinator.h"
#include "server/core/job_registry.h"

namespace dp::server {

SubmissionCheck::SubmissionCheck(const core::SubmitJob& submit, const Admission& admission,
                                 const core::Limits& limits)
    : request_id_(submit.request_id),
      user_(submit.user),
      after_(submit.spec.scheduling.after),
      admission_(admission),
      limits_(&limits) {}

absl::Status SubmissionCheck::operator()(const View& view) const {
  const core::JobRegistry& jobs = view.coordinator.state().jobs;
  return jobs.FindRequest(request_id_).has_value() ? absl::OkStatus() : CheckNew(view);
}

absl::Status SubmissionCheck::CheckNew(const View& view) const {
  const core::JobRegistry& jobs = view.coordinator.state().jobs;
  for (const Dependency& on : after_) DP_RETURN_IF_ERROR(CheckSeen(on.job, view));
  return limits_->CheckUnfinished(user_, jobs.unfinished_of(user_));
}

// An unknown job is checked here too, so that the order of the checks tells nothing either.
absl::Status SubmissionCheck::CheckSeen(JobId job, const View& view) const {
  const core::Job* const found = view.coordinator.job(job);
  if (found != nullptr && admission_.Sees(found, view)) return absl::OkStatus();
  if (found != nullptr) {
    (void)admission_.Refused(absl::PermissionDeniedError(  // the caller gets the other error
        absl::StrCat("after names job ", job.ToString(), ", which belongs to ",
                     core::OwnerOf(*found))));
  }
  return core::UnknownPredecessor(job);
}

}  // namespace dp::server
