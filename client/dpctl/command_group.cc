#include "client/dpctl/command_group.h"

#include "absl/algorithm/container.h"
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

Command& CommandGroup::chosen() const {
  const auto found = absl::c_find_if(
      commands_, [&](const auto& command) { return app_->got_subcommand(command->name()); });
  DP_CHECK(found != commands_.end());  // CLI11 requires a verb
  return **found;
}

}  // namespace dp::ctl
