#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/job_view.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

class Prune final : public Command {
 public:
  const char* name() const override { return "prune"; }
  const char* summary() const override {
    return "Remove all jobs that ended some time ago, with their logs";
  }
  const char* example() const override {
    return "dpctl prune --older-than 720h --dry-run\n  dpctl prune --older-than 720h";
  }

  void DefineFlags(CLI::App& app) override {
    AddDuration(app, "--older-than", older_than_,
                "Jobs that ended at least so long ago, by the coordinator's clock")
        ->required();
    app.add_flag("--dry-run", dry_run_, "Only list these jobs");
  }

  absl::StatusOr<int> Run(Context& context) override {
    v1::ListJobsRequest request;
    *request.mutable_finished_for() = ToProto(older_than_);
    DP_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs, ListJobs(context, request));
    std::vector<v1::Job> removed;
    absl::Status status;
    for (const v1::Job& job : jobs) {
      if (!dry_run_) status = RemoveJob(context, job);
      if (!status.ok()) break;
      removed.push_back(job);
    }
    PrintJobs(removed, context.flags().format, context.out(),
              [&] { PrintLines(removed, context); });
    if (!status.ok()) return status;
    return kSuccess;
  }

 private:
  void PrintLines(const std::vector<v1::Job>& jobs, Context& context) const {
    for (const v1::Job& job : jobs) {
      context.out() << "job " << job.id() << " (" << job.spec().name() << ") "
                    << (dry_run_ ? "would be removed" : "is removed") << '\n';
    }
    if (jobs.empty()) {
      context.err() << "dpctl: no job ended at least " << absl::FormatDuration(older_than_)
                    << " ago\n";
    }
  }

  absl::Duration older_than_;
  bool dry_run_ = false;
};

}  // namespace

std::unique_ptr<Command> MakePrune() { return std::make_unique<Prune>(); }

}  // namespace dp::ctl
