#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/job_view.h"
#include "client/dpctl/verbs.h"

namespace dp::ctl {
namespace {

class Cancel final : public Command {
 public:
  const char* name() const override { return "cancel"; }
  const char* summary() const override { return "End jobs: SIGTERM, then SIGKILL after the grace"; }
  const char* example() const override { return "dpctl cancel 7 && dpctl wait 7"; }

  void DefineFlags(CLI::App& app) override {
    app.add_option("JOB", jobs_, "Ids or names")->required();
  }

  absl::StatusOr<int> Run(Context& context) override {
    int code = kSuccess;
    for (const std::string& text : jobs_) {
      const absl::Status status = CancelOne(context, text);
      // Without its coordinator the others need not be tried.
      if (ExitCodeOf(status) == kUnreachable) return status;
      if (!status.ok()) context.err() << "dpctl: " << status.message() << '\n';
      if (code == kSuccess) code = ExitCodeOf(status);
    }
    return code;
  }

 private:
  static absl::Status CancelOne(Context& context, const std::string& text) {
    DP_ASSIGN_OR_RETURN(v1::Job found, FindJob(context, text));
    DP_ASSIGN_OR_RETURN(v1::Job job, CancelJob(context, found.id()));
    Print(found, job, context);
    return absl::OkStatus();
  }

  static void Print(const v1::Job& before, const v1::Job& job, Context& context) {
    if (context.flags().format == Format::kName) {
      context.out() << job.id() << '\n';
    } else if (context.flags().format == Format::kJson) {
      JsonWriter json(context.out());
      WriteJob(job, json);
    } else if (Finished(before.state())) {
      context.out() << "job " << job.id() << " was over: " << NameOf(before.state()) << '\n';
    } else {
      context.out() << "job " << job.id() << " is being cancelled: " << NameOf(job.state()) << '\n';
    }
  }

  std::vector<std::string> jobs_;
};

}  // namespace

std::unique_ptr<Command> MakeCancel() { return std::make_unique<Cancel>(); }

}  // namespace dp::ctl
