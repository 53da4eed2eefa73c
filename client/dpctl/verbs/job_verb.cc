#include "client/dpctl/verbs/job_verb.h"

#include <cstdint>
#include <set>

#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/view/job_view.h"
#include "client/dpctl/view/printable.h"

namespace dp::ctl {

void JobVerb::DefineFlags(CLI::App& app) {
  app.add_option("JOB", jobs_, "Ids or names")->required();
}

absl::StatusOr<int> JobVerb::Run(Context& context) {
  // All are looked up first: once a job is removed, its name means an earlier job.
  std::vector<absl::StatusOr<v1::Job>> found;
  for (const std::string& text : jobs_) {
    found.push_back(Find(context, text));
    // Without the coordinator the other jobs need not be tried.
    if (ExitCodeOf(found.back().status()) == kUnreachable) return found.back().status();
  }
  int code = kSuccess;
  std::set<uint64_t> asked;
  for (const absl::StatusOr<v1::Job>& job : found) {
    if (job.ok() && !asked.insert(job->id()).second) continue;  // named twice
    const absl::Status status = job.ok() ? AskOne(context, *job) : job.status();
    if (ExitCodeOf(status) == kUnreachable || absl::IsCancelled(status)) return status;
    if (!status.ok()) context.err() << "dpctl: " << Printable(status.message()) << '\n';
    if (code == kSuccess) code = ExitCodeOf(status);
  }
  return code;
}

absl::StatusOr<v1::Job> JobVerb::Find(Context& context, const std::string& text) const {
  return FindJob(context, text);
}

absl::Status JobVerb::AskOne(Context& context, const v1::Job& before) const {
  DP_ASSIGN_OR_RETURN(const v1::Job after, Ask(context, before));
  Print(context, before, after);
  return absl::OkStatus();
}

void JobVerb::Print(Context& context, const v1::Job& before, const v1::Job& after) const {
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
}

}  // namespace dp::ctl
