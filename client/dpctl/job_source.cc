#include "client/dpctl/job_source.h"

#include "base/status.h"
#include "client/dpctl/request_id.h"
#include "client/job_check.h"
#include "client/job_defaults.h"
#include "client/job_file.h"

namespace dp::ctl {

void JobSource::DefineFlags(CLI::App& app) {
  app.add_option("FILE", file_, "Job file, YAML or JSON (docs/job-file.md)")->required();
  app.add_option("--set", overrides_, "Changes a field, as train.epochs=3; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("PATH=VALUE");
}

absl::StatusOr<v1::JobSpec> JobSource::Load(const Context& context) const {
  absl::StatusOr<client::JobFile> job = client::ReadJobFile(file_, overrides_);
  // NotFound is what dpctl says of jobs; a missing file is a wrong argument.
  if (absl::IsNotFound(job.status())) return absl::InvalidArgumentError(job.status().message());
  if (!job.ok()) return job.status();
  client::FillDefaults(*job);
  DP_RETURN_IF_ERROR(client::CheckJob(*job, context.world().sample_shape));
  return std::move(job->spec);
}

absl::StatusOr<v1::Job> SubmitJob(Context& context, const v1::JobSpec& spec) {
  v1::SubmitRequest request;
  request.set_request_id(NewRequestId());
  *request.mutable_spec() = spec;
  DP_ASSIGN_OR_RETURN(v1::SubmitResponse response, context.Call([&](absl::Duration in) {
    return context.coordinator().jobs().Submit(request, in);
  }));
  return std::move(*response.mutable_job());
}

}  // namespace dp::ctl
