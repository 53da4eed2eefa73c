#pragma once

#include <memory>
#include <vector>

#include "client/dpctl/command.h"

namespace dp::ctl {

// A verb that has verbs of its own: `dpctl store ls`.
class CommandGroup : public Command {
 public:
  void DefineFlags(CLI::App& app) override;
  // As the verb on the command line.
  bool NeedsCoordinator() const override { return chosen().NeedsCoordinator(); }
  absl::StatusOr<int> Run(Context& context) override { return chosen().Run(context); }

 protected:
  explicit CommandGroup(std::vector<std::unique_ptr<Command> (*)()> makers);

 private:
  // After the command line was read.
  Command& chosen() const;

  std::vector<std::unique_ptr<Command>> commands_;
  CLI::App* app_ = nullptr;
};

}  // namespace dp::ctl
