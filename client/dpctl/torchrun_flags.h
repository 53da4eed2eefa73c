#pragma once

#include <map>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dp::ctl {

// The flags of torchrun (PyTorch 2.15), in its spellings with '-' and '_', as one table. A flag
// that is not given takes its value from torchrun's variable, PET_NNODES for --nnodes. A flag that
// dp has no use for is accepted, and says why. Part of a command.
class TorchrunFlags {
 public:
  void DefineFlags(CLI::App& app);

  // Errors: InvalidArgument a variable of a switch is neither on nor off; a flag stands for what
  // another command does.
  absl::Status Check() const;

  // The value of a flag by its name without dashes, as "rdzv-id"; empty where there is none.
  std::string Value(const std::string& name) const;
  // What the value comes from: "--rdzv-id", or "PET_RDZV_ID" where the flag is not given.
  std::string Origin(const std::string& name) const;
  // Whether a switch is on, as "no-python". Precondition: Check is OK.
  bool On(const std::string& name) const;

  // The first flag on the command line, with its dashes; empty where none is.
  std::string given() const;

  // For each reason why given flags are not needed, those flags and the reason. `lines_shown`: the
  // command shows the lines of ranks.
  std::vector<std::string> Unneeded(bool lines_shown) const;

 private:
  const CLI::App* app_ = nullptr;
  std::map<std::string, std::string> values_;  // by name, of the command line
};

// Whether torchrun's variable of a switch is on, PET_STANDALONE of "standalone"; false where it is
// not set. Errors: InvalidArgument it is neither on nor off.
absl::StatusOr<bool> VariableSwitch(const std::string& name);

}  // namespace dp::ctl
