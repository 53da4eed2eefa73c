#include "client/dpctl/verbs/job_store.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/job_calls.h"

namespace dp::ctl {

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Open(Context& context, const std::string& job) {
  DP_ASSIGN_OR_RETURN(const v1::Job found, FindJob(context, job));
  if (found.generation() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", found.id(), " has not been placed yet: it has no store"));
  }
  return std::unique_ptr<JobStore>(
      new JobStore(context, JobId(found.id()), Generation(found.generation())));
}

JobStore::JobStore(Context& context, JobId job, Generation generation)
    : job_(job),
      store_(context.coordinator(), context.pause(),
             {.job = job,
              .generation = generation,
              .retry = {.deadline = context.flags().timeout},
              .caller = {.name = "dpctl"}},
             context.surroundings().clock) {}

std::string KeyText(absl::string_view key) { return absl::CHexEscape(key); }

}  // namespace dp::ctl
