#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "client/dpctl/verbs/verbs.h"

namespace dp::ctl {
namespace {

// The verbs on files of samples on this machine: `dpctl data inspect PATH`.
class DataVerbs final : public Command {
 public:
  DataVerbs() {
    for (auto* make : {MakeDataInspect, MakeDataConvert}) verbs_.push_back(make());
  }

  const char* name() const override { return "data"; }
  const char* summary() const override { return "Describe and convert data sets on this machine"; }
  const char* example() const override {
    return "dpctl data inspect /data/cifar10\n  dpctl data convert table.csv table.npy";
  }
  bool NeedsCoordinator() const override { return false; }

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

std::unique_ptr<Command> MakeData() { return std::make_unique<DataVerbs>(); }

}  // namespace dp::ctl
