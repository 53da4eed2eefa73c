#include "client/dpctl/run/env_flags.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/name.h"
#include "base/status.h"
#include "base/variable_pattern.h"

namespace dp::ctl {
namespace {

// The variables that activating a virtual or a conda environment sets, and those that locate
// imports. Variables about GPUs and the user are the worker's own.
constexpr const char* kPassedOn[] = {"PATH",       "VIRTUAL_ENV",     "CONDA_PREFIX",
                                     "PYTHONPATH", "LD_LIBRARY_PATH", "CONDA_DEFAULT_ENV"};
constexpr char kFromHere[] = "--env-from-here";
// CLI11's value for a flag without one.
constexpr char kNoMore[] = "true";

// As HF_HOME,WANDB_*: programs and files usually have no such names.
bool LooksLikeNames(absl::string_view word) {
  return !absl::ascii_isdigit(word.front()) && std::all_of(word.begin(), word.end(), [](char c) {
    return absl::ascii_isupper(c) || absl::ascii_isdigit(c) || c == '_' || c == ',' || c == '*';
  });
}

std::pair<std::string, std::string> Halves(const std::string& variable) {
  return absl::StrSplit(variable, absl::MaxSplits('=', 1));
}

// The variable `name`, as NAME=VALUE; null if it is not set.
const std::string* Find(const std::string& name, const std::vector<std::string>& here) {
  const auto found = std::find_if(here.begin(), here.end(), [&name](const std::string& variable) {
    return absl::StartsWith(variable, name + "=");
  });
  return found == here.end() ? nullptr : &*found;
}

}  // namespace

void EnvFlags::DefineFlags(CLI::App& app, const std::string& group) {
  app.add_option("--env", variables_,
                 "Add a variable; NAME alone takes its value from here; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->type_name("NAME[=VALUE]")
      ->group(group);
  app.add_flag(kFromHere, from_here_,
               absl::StrCat("Pass on PATH, VIRTUAL_ENV, CONDA_PREFIX and the like; "
                            "--env-from-here=NAME,PREFIX* more of them. PREFIX* leaves out names "
                            "that have one of these in them: ",
                            absl::StrJoin(kSecretWords, ", ")))
      ->group(group);
}

absl::Status EnvFlags::CheckNext(absl::string_view word, const std::vector<std::string>& before) {
  const bool next = !before.empty() && before.back() == kFromHere;
  if (!next || !LooksLikeNames(word)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(kFromHere, " takes names behind '=': write ",
                                                 kFromHere, "=", word,
                                                 "; a program of that name stands behind '--'"));
}

std::vector<std::string> EnvFlags::More() const {
  if (from_here_.empty() || from_here_ == kNoMore) return {};
  return absl::StrSplit(from_here_, ',');
}

std::vector<std::string> EnvFlags::Unset(const std::vector<std::string>& here) const {
  std::vector<std::string> lines;
  for (const std::string& pattern : More()) {
    const bool set = std::any_of(here.begin(), here.end(), [&pattern](const std::string& variable) {
      return MatchesVariable(Halves(variable).first, pattern);
    });
    if (!set)
      lines.push_back(absl::StrCat("--env-from-here: ", pattern,
                                   " names no variable that is set here; the ranks get none"));
  }
  return lines;
}

absl::Status EnvFlags::Fill(const std::vector<std::string>& here,
                            google::protobuf::Map<std::string, std::string>& env) const {
  if (!from_here_.empty()) {
    const std::vector<std::string> more = More();
    for (const std::string& variable : here) {
      auto [name, value] = Halves(variable);
      if (IsPassedOn(name, more)) env[name] = std::move(value);
    }
  }
  for (const std::string& variable : variables_) {
    auto [name, value] = Halves(variable);
    if (name.empty())
      return absl::InvalidArgumentError(
          absl::StrCat("--env is \"", variable, "\"; expected NAME=VALUE or NAME"));
    if (!IsVariableName(name))
      return absl::InvalidArgumentError(
          absl::StrCat("--env is \"", variable, "\", but a name consists of ", kVariableNameRule));
    if (!absl::StrContains(variable, '=')) {
      const std::string* found = Find(name, here);
      if (found == nullptr)
        return absl::InvalidArgumentError(
            absl::StrCat("--env ", name, ": it is not set here; give --env ", name, "=VALUE"));
      value = Halves(*found).second;
    }
    env[name] = std::move(value);
  }
  return absl::OkStatus();
}

bool IsPassedOn(const std::string& name, const std::vector<std::string>& more) {
  const auto matches = [&name](absl::string_view pattern) {
    return MatchesVariable(name, pattern);
  };
  return std::any_of(std::begin(kPassedOn), std::end(kPassedOn), matches) ||
         std::any_of(more.begin(), more.end(), matches);
}

}  // namespace dp::ctl
