#include "client/dpctl/verbs/job_verb.h"
#include "client/dpctl/verbs/verbs.h"
#include "dp/v1/jobs.grpc.pb.h"

namespace dp::ctl {
namespace {

class Hold final : public JobVerb {
 public:
  const char* name() const override { return "hold"; }
  const char* summary() const override { return "Keep pending jobs from starting"; }
  const char* example() const override { return "dpctl hold 7 && dpctl release 7"; }

 private:
  absl::StatusOr<v1::Job> Ask(Context& context, const v1::Job& job) const override {
    v1::HoldRequest request;
    request.set_job(job.id());
    return JobOf(context.Call(&v1::Jobs::Stub::Hold, request));
  }
  std::string Done(const v1::Job&, const v1::Job&) const override {
    return "is held until 'dpctl release'";
  }
};

}  // namespace

std::unique_ptr<Command> MakeHold() { return std::make_unique<Hold>(); }

}  // namespace dp::ctl
