#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/verbs/job_verb.h"
#include "client/dpctl/verbs/verbs.h"

namespace dp::ctl {
namespace {

class Rm final : public JobVerb {
 public:
  const char* name() const override { return "rm"; }
  const char* summary() const override { return "Remove jobs that are over, with their logs"; }
  const char* example() const override {
    return "dpctl rm 7 8\n  dpctl rm $(dpctl ps --state failed -o name)";
  }

 private:
  // A number that is no job's does not stand for a name: who repeats a removal means the same job.
  absl::StatusOr<v1::Job> Find(Context& context, const std::string& text) const override {
    uint64_t id = 0;
    return absl::SimpleAtoi(text, &id) ? GetJob(context, id) : FindJob(context, text);
  }
  absl::StatusOr<v1::Job> Ask(Context& context, const v1::Job& job) const override {
    DP_RETURN_IF_ERROR(RemoveJob(context, job));
    return job;
  }
  std::string Done(const v1::Job& job, const v1::Job&) const override {
    return absl::StrCat("(", job.spec().name(), ") is removed");
  }
};

}  // namespace

std::unique_ptr<Command> MakeRm() { return std::make_unique<Rm>(); }

}  // namespace dp::ctl
