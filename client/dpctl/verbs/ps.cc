#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/job_view.h"
#include "client/dpctl/view/table.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

// One line on why the job is in its state.
std::string Reason(const v1::Job& job) {
  if (!Finished(job.state()) && !job.pending_reasons().empty())
    return absl::StrJoin(job.pending_reasons(), "; ");
  return job.has_failure() ? job.failure().message() : "";
}

class Ps final : public Command {
 public:
  const char* name() const override { return "ps"; }
  const char* summary() const override { return "List the jobs that are not over"; }
  const char* example() const override {
    return "dpctl ps\n  dpctl ps -a --state failed\n  dpctl ps -o json | jq '.items[].state'";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_flag("-a,--all", all_, "Also those that are over");
    app.add_option("--state", state_, "Only jobs in this state, whether over or not")
        ->check(CLI::IsMember(
            {"pending", "starting", "running", "stopping", "succeeded", "failed", "cancelled"},
            CLI::ignore_case));
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(std::vector<v1::Job> jobs, ListJobs(context, Request()));
    PrintJobs(jobs, context.flags().format, context.out(), [&] { PrintTable(jobs, context); });
    return kSuccess;
  }

 private:
  v1::ListJobsRequest Request() const {
    v1::ListJobsRequest request;
    for (int number = v1::JobState_MIN + 1; number <= v1::JobState_MAX; ++number) {
      const auto state = static_cast<v1::JobState>(number);
      if (Wanted(state)) request.add_states(state);
    }
    return request;
  }

  bool Wanted(v1::JobState state) const {
    if (!state_.empty()) return NameOf(state) == absl::AsciiStrToUpper(state_);
    return all_ || !Finished(state);
  }

  static void PrintTable(const std::vector<v1::Job>& jobs, Context& context) {
    Table table({"ID", "NAME", "STATE", "RANKS", "RESTARTS", "WORKERS", "AGE", "REASON"});
    for (const v1::Job& job : jobs) {
      const absl::Duration age = context.surroundings().clock.Now() - FromProto(job.submitted_at());
      table.Add({absl::StrCat(job.id()), job.spec().name(), NameOf(job.state()),
                 absl::StrCat(WorldSizeOf(job)), absl::StrCat(job.restarts()),
                 absl::StrJoin(WorkersOf(job), ","), AgeText(age), Reason(job)});
    }
    table.Print(context.out(), !context.flags().no_headers);
  }

  bool all_ = false;
  std::string state_;
};

}  // namespace

std::unique_ptr<Command> MakePs() { return std::make_unique<Ps>(); }

}  // namespace dp::ctl
