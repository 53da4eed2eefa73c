#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/map.h"

namespace dp::ctl {

// The flags that add to the environment of the ranks: --env NAME=VALUE, --env NAME and
// --env-from-here. Part of a command.
class EnvFlags {
 public:
  // The flags stand under `group` in the help.
  void DefineFlags(CLI::App& app, const std::string& group);

  // Checks `word`, which stands behind the flags `before` and is no flag itself.
  // Errors: InvalidArgument it was meant for --env-from-here.
  static absl::Status CheckNext(absl::string_view word, const std::vector<std::string>& before);

  // A line for each name that --env-from-here gives and `here` does not have.
  std::vector<std::string> Unset(const std::vector<std::string>& here) const;

  // Adds the variables. `here` is the environment of dpctl, NAME=VALUE each; what --env says wins
  // over it. Errors: InvalidArgument names the flag.
  absl::Status Fill(const std::vector<std::string>& here,
                    google::protobuf::Map<std::string, std::string>& env) const;

 private:
  // The names and PREFIX* that --env-from-here adds to the usual ones.
  std::vector<std::string> More() const;

  std::vector<std::string> variables_;
  std::string from_here_;  // names and PREFIX*; empty: the flag was not given
};

// Whether --env-from-here passes a variable on: one that says where programs and libraries are, or
// one that `more` lists, as "HF_HOME,WANDB_*". A name that may hold a secret is passed on only
// where `more` spells it out. Pure.
bool IsPassedOn(const std::string& name, const std::vector<std::string>& more);

}  // namespace dp::ctl
