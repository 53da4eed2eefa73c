#include "client/dpctl/command_group.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace dp::ctl {

CommandGroup::CommandGroup(std::vector<std::unique_ptr<Command> (*)()> makers) {
  for (auto* make : makers) commands_.push_back(make());
}

void CommandGroup::DefineFlags(CLI::App& app) {
  app_ = &app;
  app.require_subcommand(1);
  for (const auto& command : commands_) {
    CLI::App* sub = app.add_subcommand(command->name(), command->summary());
    sub->footer(absl::StrCat("Example:\n  ", command->example()));
    command->DefineFlags(*sub);
  }
}

absl::StatusOr<int> CommandGroup::Run(Context& context) {
  for (const auto& command : commands_)
    if (app_->got_subcommand(command->name())) return command->Run(context);
  DP_CHECK(false);  // CLI11 requires a verb
  return absl::InternalError("");
}

}  // namespace dp::ctl
