#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/duration_text.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/job_view.h"
#include "client/dpctl/view/outstanding_output.h"
#include "client/long_poll.h"

namespace dp::ctl {
namespace {

class Wait final : public Command {
 public:
  const char* name() const override { return "wait"; }
  const char* summary() const override { return "Wait for a job to be over; exit with its result"; }
  const char* example() const override { return "dpctl wait 7 --timeout 2h; echo $?"; }

  void DefineFlags(CLI::App& app) override {
    app.add_option("JOB", job_, "Id, or name (the latest job of that name)")->required();
    AddDuration(app, "--timeout", timeout_, "Give up after this long, with exit code 101");
  }

  absl::StatusOr<int> Run(Context& context) override {
    const Clock& clock = context.surroundings().clock;
    const absl::Time began = clock.Now();
    context.EndBy(began + std::max(timeout_, client::kFirstAnswer));
    DP_ASSIGN_OR_RETURN(v1::Job found, FindJob(context, job_));
    const auto any_change = [](const v1::Job&) { return true; };
    const absl::Duration left = std::max(began + timeout_ - clock.Now(), absl::ZeroDuration());
    DP_ASSIGN_OR_RETURN(v1::Job job,
                        AwaitJob(context, found.id(), kPatience, left, any_change, found));
    Print(job, context);
    if (!Finished(job.state())) {
      context.err() << "dpctl: job " << job.id() << " is not over after " << DurationText(timeout_)
                    << ": " << NameOf(job.state()) << "; wait on with 'dpctl wait " << job.id()
                    << "'\n";
      return kNotFinished;
    }
    if (job.state() == v1::JOB_STATE_FAILED) PrintFailure(job, context.err());
    WarnOfOutstanding(context, job);
    return ExitCodeOf(job);
  }

 private:
  static void Print(const v1::Job& job, Context& context) {
    if (context.flags().format == Format::kName) {
      context.out() << job.id() << '\n';
    } else if (context.flags().format == Format::kJson) {
      JsonWriter json(context.out());
      WriteJob(job, json);
    } else if (Finished(job.state())) {
      context.out() << "job " << job.id() << ' ' << NameOf(job.state()) << '\n';
    }
  }

  std::string job_;
  absl::Duration timeout_ = absl::InfiniteDuration();
};

}  // namespace

std::unique_ptr<Command> MakeWait() { return std::make_unique<Wait>(); }

}  // namespace dp::ctl
