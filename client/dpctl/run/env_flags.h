#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/map.h"

namespace dp::ctl {

// The flags that add to the environment of ranks: --env NAME=VALUE, --env NAME and --env-from-here.
// Part of a command.
class EnvFlags {
 public:
  // Lists the flags under `group` in the help.
  void DefineFlags(CLI::App& app, const std::string& group);

  // Checks `word`, which follows the flags `before` and is no flag itself.
  // Errors: InvalidArgument the word was meant for --env-from-here.
  static absl::Status CheckNext(absl::string_view word, const std::vector<std::string>& before);

  // One line for each name of --env-from-here that `here` does not have.
  std::vector<std::string> Unset(const std::vector<std::string>& here) const;

  // Adds the variables. `here` is the environment of dpctl, NAME=VALUE each; --env takes precedence
  // over it. Errors: InvalidArgument names the flag.
  absl::Status Fill(const std::vector<std::string>& here,
                    google::protobuf::Map<std::string, std::string>& env) const;

 private:
  // The names and PREFIX* that --env-from-here adds to the usual names.
  std::vector<std::string> More() const;

  std::vector<std::string> variables_;
  std::string from_here_;  // names and PREFIX*; empty: the flag was not given
};

// Whether --env-from-here passes a variable on. It passes on variables that locate programs and
// libraries, and those in `more`, as "HF_HOME,WANDB_*". A name that may hold a secret must be in
// `more` in full. Pure.
bool IsPassedOn(const std::string& name, const std::vector<std::string>& more);

}  // namespace dp::ctl
