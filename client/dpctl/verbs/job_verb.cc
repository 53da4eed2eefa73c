#include "client/dpctl/verbs/job_verb.h"

#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/view/job_view.h"

namespace dp::ctl {

void JobVerb::DefineFlags(CLI::App& app) {
  app.add_option("JOB", jobs_, "Ids or names")->required();
}

absl::StatusOr<int> JobVerb::Run(Context& context) {
  int code = kSuccess;
  for (const std::string& text : jobs_) {
    const absl::Status status = AskOne(context, text);
    // Without the coordinator the other jobs need not be tried.
    if (ExitCodeOf(status) == kUnreachable) return status;
    if (!status.ok()) context.err() << "dpctl: " << status.message() << '\n';
    if (code == kSuccess) code = ExitCodeOf(status);
  }
  return code;
}

absl::StatusOr<v1::Job> JobVerb::Find(Context& context, const std::string& text) const {
  return FindJob(context, text);
}

absl::Status JobVerb::AskOne(Context& context, const std::string& text) const {
  DP_ASSIGN_OR_RETURN(const v1::Job before, Find(context, text));
  DP_ASSIGN_OR_RETURN(const v1::Job after, Ask(context, before));
  switch (context.flags().format) {
    case Format::kName:
      context.out() << after.id() << '\n';
      break;
    case Format::kJson: {
      JsonWriter json(context.out());
      WriteJob(after, json);
      break;
    }
    case Format::kTable:
      context.out() << "job " << after.id() << ' ' << Done(before, after) << '\n';
  }
  return absl::OkStatus();
}

}  // namespace dp::ctl
