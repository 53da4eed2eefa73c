#include "client/dpctl/verbs/job_verb.h"
#include "client/dpctl/verbs/verbs.h"
#include "dp/v1/jobs.grpc.pb.h"

namespace dp::ctl {
namespace {

class Release final : public JobVerb {
 public:
  const char* name() const override { return "release"; }
  const char* summary() const override { return "Let held jobs start"; }
  const char* example() const override { return "dpctl release 7"; }

 private:
  absl::StatusOr<v1::Job> Ask(Context& context, const v1::Job& job) const override {
    v1::ReleaseRequest request;
    request.set_job(job.id());
    return JobOf(context.Call(&v1::Jobs::Stub::Release, request));
  }
  std::string Done(const v1::Job& before, const v1::Job&) const override {
    return before.held() ? "is released" : "was not held";
  }
};

}  // namespace

std::unique_ptr<Command> MakeRelease() { return std::make_unique<Release>(); }

}  // namespace dp::ctl
