#include "absl/strings/str_cat.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/verbs/job_verb.h"
#include "client/dpctl/verbs/verbs.h"

namespace dp::ctl {
namespace {

class Cancel final : public JobVerb {
 public:
  const char* name() const override { return "cancel"; }
  const char* summary() const override { return "End jobs: SIGTERM, then SIGKILL after the grace"; }
  const char* example() const override { return "dpctl cancel 7 && dpctl wait 7"; }

 private:
  absl::StatusOr<v1::Job> Ask(Context& context, const v1::Job& job) const override {
    return CancelJob(context, job.id());
  }
  std::string Done(const v1::Job& before, const v1::Job& after) const override {
    if (Finished(before.state())) return absl::StrCat("was over: ", NameOf(before.state()));
    return absl::StrCat("is being cancelled: ", NameOf(after.state()));
  }
};

}  // namespace

std::unique_ptr<Command> MakeCancel() { return std::make_unique<Cancel>(); }

}  // namespace dp::ctl
