#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "client/dpctl/verbs/verbs.h"

namespace dp::ctl {
namespace {

// The verbs on a job's store: `dpctl store ls 7`.
class StoreVerbs final : public Command {
 public:
  StoreVerbs() {
    for (auto* make : {MakeStoreLs, MakeStoreGet, MakeStoreSet, MakeStoreWatch, MakeStoreWaiters})
      verbs_.push_back(make());
  }

  const char* name() const override { return "store"; }
  const char* summary() const override { return "Look into a job's store, and who waits in it"; }
  const char* example() const override { return "dpctl store ls 7\n  dpctl store waiters 7"; }
  bool TakesWordsBehindDashes() const override { return true; }

  void DefineFlags(CLI::App& app) override {
    app_ = &app;
    app.require_subcommand(1);
    for (const auto& verb : verbs_) {
      CLI::App* sub = app.add_subcommand(verb->name(), verb->summary());
      sub->footer(absl::StrCat("Example:\n  ", verb->example()));
      verb->DefineFlags(*sub);
    }
  }

  absl::StatusOr<int> Run(Context& context) override {
    for (const auto& verb : verbs_)
      if (app_->got_subcommand(verb->name())) return verb->Run(context);
    DP_CHECK(false);  // CLI11 requires a verb
    return absl::InternalError("");
  }

 private:
  std::vector<std::unique_ptr<Command>> verbs_;
  CLI::App* app_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> MakeStore() { return std::make_unique<StoreVerbs>(); }

}  // namespace dp::ctl
