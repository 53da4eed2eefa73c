#pragma once

#include <memory>
#include <vector>

#include "client/dpctl/command.h"

namespace dp::ctl {

// A verb that has verbs of its own: `dpctl store ls`.
class CommandGroup : public Command {
 public:
  void DefineFlags(CLI::App& app) override;
  absl::StatusOr<int> Run(Context& context) override;

 protected:
  explicit CommandGroup(std::vector<std::unique_ptr<Command> (*)()> makers);

 private:
  std::vector<std::unique_ptr<Command>> commands_;
  CLI::App* app_ = nullptr;
};

}  // namespace dp::ctl
