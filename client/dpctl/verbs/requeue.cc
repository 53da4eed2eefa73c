#include "client/dpctl/job_state.h"
#include "client/dpctl/verbs/job_verb.h"
#include "client/dpctl/verbs/verbs.h"
#include "dp/v1/jobs.grpc.pb.h"

namespace dp::ctl {
namespace {

class Requeue final : public JobVerb {
 public:
  const char* name() const override { return "requeue"; }
  const char* summary() const override {
    return "Stop jobs and put them behind the others of their priority";
  }
  const char* example() const override { return "dpctl requeue 7"; }

 private:
  // Names the generation, so that a repeated attempt does not end a second one.
  absl::StatusOr<v1::Job> Ask(Context& context, const v1::Job& job) const override {
    v1::RequeueRequest request;
    request.set_job(job.id());
    request.set_generation(job.generation());
    return JobOf(context.Call(&v1::Jobs::Stub::Requeue, request));
  }
  std::string Done(const v1::Job&, const v1::Job& after) const override {
    return "is queued again: " + NameOf(after.state());
  }
};

}  // namespace

std::unique_ptr<Command> MakeRequeue() { return std::make_unique<Requeue>(); }

}  // namespace dp::ctl
