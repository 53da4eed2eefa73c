#include <optional>

#include "absl/strings/str_cat.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/verbs/job_verb.h"
#include "client/dpctl/verbs/verbs.h"
#include "dp/v1/jobs.grpc.pb.h"

namespace dp::ctl {
namespace {

class Priority final : public JobVerb {
 public:
  const char* name() const override { return "priority"; }
  const char* summary() const override { return "Change the priority of jobs that are not over"; }
  const char* example() const override { return "dpctl priority 7 --to 100"; }

  void DefineFlags(CLI::App& app) override {
    JobVerb::DefineFlags(app);
    AddPriority(app, "--to", priority_)->required();
  }

 private:
  absl::StatusOr<v1::Job> Ask(Context& context, const v1::Job& job) const override {
    v1::SetPriorityRequest request;
    request.set_job(job.id());
    request.set_priority(*priority_);
    return JobOf(context.Call(&v1::Jobs::Stub::SetPriority, request));
  }
  std::string Done(const v1::Job& before, const v1::Job& after) const override {
    return absl::StrCat("has priority ", after.priority(), ", had ", before.priority());
  }

  std::optional<int> priority_;  // always given: the flag is required
};

}  // namespace

std::unique_ptr<Command> MakePriority() { return std::make_unique<Priority>(); }

}  // namespace dp::ctl
