#include <string>

#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/job_view.h"
#include "client/dpctl/view/outstanding_output.h"

namespace dp::ctl {
namespace {

class Describe final : public Command {
 public:
  const char* name() const override { return "describe"; }
  const char* summary() const override {
    return "Show one job: its ranks, why it waits, why it failed";
  }
  const char* example() const override {
    return "dpctl describe 7\n  dpctl describe fashion-mnist-cnn -o json | jq .failureClass";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_option("JOB", job_, "Id, or name (the latest job of that name)")->required();
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(v1::Job job, FindJob(context, job_));
    switch (context.flags().format) {
      case Format::kName:
        context.out() << job.id() << '\n';
        break;
      case Format::kJson: {
        JsonWriter json(context.out());
        WriteJob(job, json);
        break;
      }
      case Format::kTable:
        DescribeJob(job, context.surroundings().clock.Now(), context.out());
        break;
    }
    context.out().flush();  // the job comes first
    WarnOfOutstanding(context, job);
    return kSuccess;
  }

 private:
  std::string job_;
};

}  // namespace

std::unique_ptr<Command> MakeDescribe() { return std::make_unique<Describe>(); }

}  // namespace dp::ctl
