#include <string>

#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/verbs/job_store.h"
#include "client/dpctl/verbs/verbs.h"

namespace dp::ctl {
namespace {

class StoreSet final : public Command {
 public:
  const char* name() const override { return "set"; }
  const char* summary() const override { return "Set a key of a job's store"; }
  const char* example() const override {
    return "dpctl store set 7 go yes\n  dpctl store set 7 offset -- -5";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_option("JOB", job_, "Id, or name (the latest job of that name)")->required();
    app.add_option("KEY", key_, "The key")->required();
    app.add_option("VALUE", value_, "Its value; behind -- where it begins with -")->required();
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(const auto opened, JobStore::Open(context, job_));
    DP_RETURN_IF_ERROR(opened->store().Set(key_, value_));
    return kSuccess;
  }

 private:
  std::string job_, key_, value_;
};

}  // namespace

std::unique_ptr<Command> MakeStoreSet() { return std::make_unique<StoreSet>(); }

}  // namespace dp::ctl
