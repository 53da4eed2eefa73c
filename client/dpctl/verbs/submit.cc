#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/run/job_source.h"
#include "client/dpctl/run/ranks_per_worker.h"
#include "client/dpctl/run/resume_flag.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/job_view.h"
#include "client/dpctl/view/plan_view.h"
#include "client/dpctl/view/spec_text.h"
#include "dp/v1/jobs.grpc.pb.h"

namespace dp::ctl {
namespace {

class Submit final : public Command {
 public:
  const char* name() const override { return "submit"; }
  const char* summary() const override { return "Queue a job and return"; }
  const char* example() const override {
    return "dpctl submit job.yaml --set train.epochs=3\n"
           "  dpctl submit job.yaml --dry-run --explain\n"
           "  dpctl submit job.yaml --priority 100 --after 7\n"
           "  dpctl submit job.yaml --priority -10 --preemptible\n"
           "  dpctl submit --nnodes 2 --nproc-per-node 4 -- python3 train.py --epochs 3\n"
           "  id=$(dpctl submit job.yaml -o name)";
  }

  JobSource* source() override { return &source_; }

  void DefineFlags(CLI::App& app) override {
    source_.DefineFlags(app);
    resume_.DefineFlags(app);
    app.add_flag("--hold", hold_, "Let it wait until 'dpctl release'");
    AddPriority(app, "--priority", priority_);
    app.add_flag("--preemptible", preemptible_, "Jobs of higher priority may take its slots");
    app.add_option(
           "--after", after_,
           "A job that must have succeeded before, or with any:JOB only ended; may be repeated")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false)
        ->type_name("JOB");
    CLI::Option* dry_run =
        app.add_flag("--dry-run", dry_run_, "Only check the job, and print it with its defaults");
    app.add_flag("--explain", explain_,
                 "With --dry-run: ask the coordinator where it would run, or why it would wait")
        ->needs(dry_run);
  }

  absl::StatusOr<int> Run(Context& context) override {
    if (dry_run_ && context.flags().format == Format::kName)
      return absl::InvalidArgumentError(
          "a dry run makes no job whose number could be printed; leave out -o name");
    DP_ASSIGN_OR_RETURN(client::JobFile job, source_.Load(context, /*ranks_run_here=*/false));
    v1::JobSpec& spec = job.spec;
    DP_RETURN_IF_ERROR(TakeFlags(context, spec));
    DP_RETURN_IF_ERROR(resume_.Apply(context, spec));
    if (explain_) return Explain(context, job);
    if (dry_run_) {
      const bool json = context.flags().format == Format::kJson;
      context.out() << (json ? SpecJson(spec) : SpecYaml(spec));
      return kSuccess;
    }
    DP_RETURN_IF_ERROR(CountRanks(context, job));
    DP_ASSIGN_OR_RETURN(const v1::SubmitRequest request, RequestFor(context, job));
    DP_ASSIGN_OR_RETURN(const v1::Job submitted, SubmitJob(context, request));
    Print(submitted, context);
    return kSuccess;
  }

 private:
  // The flags take precedence over the job file.
  absl::Status TakeFlags(Context& context, v1::JobSpec& spec) const {
    if (hold_) spec.set_hold(true);
    if (preemptible_) spec.set_preemptible(true);
    if (priority_.has_value()) spec.set_priority(*priority_);
    for (const std::string& text : after_) {
      absl::string_view job = text;
      const bool any = absl::ConsumePrefix(&job, "any:");
      if (!any) absl::ConsumePrefix(&job, "ok:");
      DP_ASSIGN_OR_RETURN(const v1::Job found, FindJob(context, std::string(job)));
      spec.add_after(absl::StrCat(any ? "any:" : "ok:", found.id()));
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<int> Explain(Context& context, client::JobFile& job) {
    DP_RETURN_IF_ERROR(CountRanks(context, job));
    v1::PlanRequest request;
    *request.mutable_spec() = job.spec;
    request.set_user(context.surroundings().user);
    DP_ASSIGN_OR_RETURN(const v1::PlanResponse plan, context.Call(&v1::Jobs::Stub::Plan, request));
    if (context.flags().format == Format::kJson) {
      JsonWriter json(context.out());
      WritePlan(plan, json);
    } else {
      ExplainPlan(plan, context.out());
    }
    return kSuccess;
  }

  static void Print(const v1::Job& job, Context& context) {
    switch (context.flags().format) {
      case Format::kName:
        context.out() << job.id() << '\n';
        return;
      case Format::kJson: {
        JsonWriter json(context.out());
        return WriteJob(job, json);
      }
      case Format::kTable:
        context.out() << "job " << job.id() << " submitted\n";
        context.err() << "follow:   dpctl logs -f " << job.id() << "\nstate:    dpctl describe "
                      << job.id() << "\ncancel:   dpctl cancel " << job.id() << '\n';
    }
  }

  JobSource source_{Launching::kDp, /*lines_shown=*/false};
  ResumeFlag resume_;
  bool dry_run_ = false;
  bool explain_ = false;
  bool hold_ = false;
  bool preemptible_ = false;
  std::optional<int> priority_;
  std::vector<std::string> after_;
};

}  // namespace

std::unique_ptr<Command> MakeSubmit() { return std::make_unique<Submit>(); }

}  // namespace dp::ctl
