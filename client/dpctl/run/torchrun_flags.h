#pragma once

#include <map>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dp::ctl {

// The flags of torchrun (PyTorch 2.15), in its spellings with '-' and '_', as one table. A flag
// that is not given takes its value from torchrun's variable, as PET_NNODES for --nnodes. A flag
// that dp does not need is accepted, and reported with the reason. Part of a command.
class TorchrunFlags {
 public:
  void DefineFlags(CLI::App& app);

  // Errors: InvalidArgument a variable of a switch is neither on nor off; another command does what
  // a given flag stands for.
  absl::Status Check() const;

  // The value of a flag by its name without dashes, as "rdzv-id"; empty if there is none.
  std::string Value(const std::string& name) const;
  // The origin of the value: "--rdzv-id", or "PET_RDZV_ID" if the flag was not given.
  std::string Origin(const std::string& name) const;
  // Whether a switch, as "no-python", is on. Precondition: Check is OK.
  bool On(const std::string& name) const;

  // The first flag given on the command line, with its dashes; empty if none.
  std::string given() const;

  // One line per reason why given flags are not needed, with these flags and the reason.
  // `lines_shown`: the command shows the lines of ranks.
  std::vector<std::string> Unneeded(bool lines_shown) const;

 private:
  const CLI::App* app_ = nullptr;
  std::map<std::string, std::string> values_;  // from the command line, by name
};

// Whether torchrun's variable of a switch is on, as PET_STANDALONE for "standalone"; false if it is
// not set. Errors: InvalidArgument it is neither on nor off.
absl::StatusOr<bool> VariableSwitch(const std::string& name);

}  // namespace dp::ctl
