#include "client/dpctl/run/resume_flag.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/view/checkpoint_view.h"

namespace dp::ctl {
namespace {

void Add(const v1::Checkpoint& checkpoint, v1::ResumeSpec& resume) {
  v1::ResumeFrom* from = resume.add_from();
  from->set_path(checkpoint.path());
  from->set_sha256(checkpoint.sha256());
  from->set_step(checkpoint.step());
}

std::string Steps(const v1::ListCheckpointsResponse& all) {
  return absl::StrJoin(all.checkpoints(), ", ", [](std::string* out, const v1::Checkpoint& one) {
    absl::StrAppend(out, one.step());
  });
}

}  // namespace

void ResumeFlag::DefineFlags(CLI::App& app) {
  app.add_option("--resume", from_,
                 "Start from a checkpoint of an earlier job; 'dpctl checkpoints JOB' lists them")
      ->type_name("JOB@latest|STEP");
}

absl::Status ResumeFlag::Apply(Context& context, v1::JobSpec& spec) const {
  if (!given()) return absl::OkStatus();
  const size_t at = from_->rfind('@');
  const std::string which = at == from_->npos ? "" : from_->substr(at + 1);
  int64_t step = -1;
  if (which != "latest" && (!absl::SimpleAtoi(which, &step) || step < 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--resume is '", *from_, "'; expected JOB@latest, or JOB@STEP as 7@400"));
  }
  if (!spec.has_train()) {
    return absl::InvalidArgumentError("--resume is for train jobs; a command resumes by itself");
  }
  DP_ASSIGN_OR_RETURN(const v1::Job job, FindJob(context, from_->substr(0, at)));
  DP_ASSIGN_OR_RETURN(const v1::ListCheckpointsResponse all, ListCheckpoints(context, job.id()));
  v1::ResumeSpec& resume = *spec.mutable_train()->mutable_resume();
  resume.set_job(job.id());
  for (const v1::Checkpoint& one : all.checkpoints()) {
    if (step < 0 || one.step() == step) Add(one, resume);
  }
  if (resume.from_size() > 0) return absl::OkStatus();
  if (all.checkpoints().empty()) {
    return absl::NotFoundError(absl::StrCat("job ", job.id(), " has no checkpoint on record"));
  }
  return absl::NotFoundError(absl::StrCat("job ", job.id(), " has no checkpoint of step ", step,
                                          "; there are those of ", Steps(all)));
}

}  // namespace dp::ctl
