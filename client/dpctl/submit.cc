#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/job_source.h"
#include "client/dpctl/job_view.h"
#include "client/dpctl/ranks_per_worker.h"
#include "client/dpctl/resume_flag.h"
#include "client/dpctl/spec_text.h"
#include "client/dpctl/verbs.h"

namespace dp::ctl {
namespace {

class Submit final : public Command {
 public:
  const char* name() const override { return "submit"; }
  const char* summary() const override { return "Queue a job and return"; }
  const char* example() const override {
    return "dpctl submit job.yaml --set train.epochs=3\n"
           "  dpctl submit job.yaml --dry-run\n"
           "  dpctl submit --nnodes 2 --nproc-per-node 4 -- python3 train.py --epochs 3\n"
           "  id=$(dpctl submit job.yaml -o name)";
  }

  bool TakeProgram(std::vector<std::string> argv) override {
    return source_.TakeProgram(std::move(argv));
  }

  void DefineFlags(CLI::App& app) override {
    source_.DefineFlags(app);
    resume_.DefineFlags(app);
    app.add_flag("--dry-run", dry_run_, "Only check the job, and print it with its defaults");
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(v1::JobSpec spec, source_.Load(context, /*ranks_run_here=*/false));
    if (dry_run_) {
      const bool json = context.flags().format == Format::kJson;
      context.out() << (json ? SpecJson(spec) : SpecYaml(spec));
      return kSuccess;
    }
    DP_RETURN_IF_ERROR(CountRanks(context, spec));
    DP_RETURN_IF_ERROR(resume_.Apply(context, spec));
    DP_ASSIGN_OR_RETURN(v1::Job job, SubmitJob(context, spec));
    Print(job, context);
    return kSuccess;
  }

 private:
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

  JobSource source_;
  ResumeFlag resume_;
  bool dry_run_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeSubmit() { return std::make_unique<Submit>(); }

}  // namespace dp::ctl
