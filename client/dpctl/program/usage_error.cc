#include "client/dpctl/program/usage_error.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/dpctl/run/job_source.h"
#include "client/job/nearest_name.h"

namespace dp::ctl {
namespace {

// The last command on the command line.
const CLI::App& Innermost(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

// The command for what Slurm, PBS, Kubernetes and others call `word`; empty if it is no word of
// theirs. The nearest name could be a harmful one: squeue and requeue differ by two letters.
std::string CommandForWord(const std::string& word) {
  static const auto* const kCommands = new std::map<std::string, std::string>{
      {"sbatch", "submit"}, {"qsub", "submit"},   {"create", "submit"},
      {"apply", "submit"},  {"srun", "run"},      {"exec", "run"},
      {"start", "run"},     {"squeue", "ps"},     {"qstat", "ps"},
      {"list", "ps"},       {"ls", "ps"},         {"jobs", "ps"},
      {"sacct", "ps -a"},   {"get", "describe"},  {"status", "describe"},
      {"show", "describe"}, {"info", "describe"}, {"scancel", "cancel"},
      {"qdel", "cancel"},   {"kill", "cancel"},   {"stop", "cancel"},
      {"delete", "rm"},     {"remove", "rm"},     {"sinfo", "workers"},
      {"nodes", "workers"}, {"cordon", "drain"},  {"uncordon", "undrain"},
      {"attach", "logs"},   {"tail", "logs"},     {"version", "--version"}};
  const auto found = kCommands->find(word);
  return found == kCommands->end() ? "" : found->second;
}

std::string DidYouMean(const std::string& name) {
  return name.empty() ? "" : absl::StrCat("; did you mean '", name, "'?");
}

// The flag that `word` abbreviates, as torchrun allows; else a flag with similar spelling; empty if
// there is none.
std::string FlagLike(const std::string& word, const CLI::App& verb) {
  const std::string flag = word.substr(0, word.find('='));
  const auto folded = [](const std::string& name) {
    return absl::StrReplaceAll(name, {{"_", "-"}});
  };
  std::vector<std::string> names;
  std::map<const CLI::Option*, std::string> abbreviated;
  for (const CLI::App* app = &verb; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        names.push_back(absl::StrCat("--", name));
        // Keeps the user's spelling, "--nproc-per-node" or "--nproc_per_node".
        if (!absl::StartsWith(folded(names.back()), folded(flag))) continue;
        std::string& whole = abbreviated[option];
        if (!absl::StartsWith(whole, flag)) whole = names.back();
      }
    }
  }
  return abbreviated.size() == 1 ? abbreviated.begin()->second : client::NearestName(flag, names);
}

// Whether submit has the flag. The commands that run a job lack --dry-run and the flags for jobs
// that wait, such as --hold.
bool IsFlagOfSubmit(const std::string& word, const CLI::App& verb) {
  const CLI::App* submit = verb.get_parent()->get_subcommand("submit");
  return submit->get_option_no_throw(word.substr(0, word.find('='))) != nullptr;
}

std::string NoFlag(const std::string& word, const CLI::App& at, Command* verb, bool first) {
  const std::string no_flag = absl::StrCat("there is no flag '", word, "'");
  if (verb != nullptr && verb->source() != nullptr && IsFlagOfSubmit(word, at))
    return absl::StrCat(no_flag, " for ", at.get_name(), "; 'dpctl submit' has it");
  const std::string like = FlagLike(word, at);
  if (!like.empty() || verb == nullptr) return absl::StrCat(no_flag, DidYouMean(like));
  if (verb->TakesWordsBehindDashes())
    return absl::StrCat(no_flag, "; a word that begins with - stands behind --");
  if (first || verb->source() == nullptr) return no_flag;
  const std::string left_over = verb->source()->WhyLeftOver(word);
  return left_over.empty() ? no_flag : left_over;
}

// The error for a missing command, or for a word that has no place; empty if CLI11's message is
// better.
std::string NoPlace(const CLI::App& app, Command* verb, const std::string& unknown_flag) {
  const CLI::App& at = Innermost(app);
  std::vector<std::string> verbs;
  for (const CLI::App* below : at.get_subcommands([](const CLI::App*) { return true; }))
    verbs.push_back(below->get_name());
  const std::string all = absl::StrJoin(verbs, ", ");
  const std::vector<std::string> words = app.remaining(/*recurse=*/true);
  if (words.empty())
    return verbs.empty() ? "" : absl::StrCat("there is no command; give one of ", all);
  const std::string& word = words.front();
  if (absl::StartsWith(word, "-")) return NoFlag(word, at, verb, word == unknown_flag);
  if (verbs.empty())
    return verb == nullptr || verb->source() == nullptr ? "" : verb->source()->WhyLeftOver(word);
  const std::string known = at.get_parent() == nullptr ? CommandForWord(word) : "";
  const std::string nearest = known.empty() ? client::NearestName(word, verbs) : known;
  return absl::StrCat("there is no command '", word, "'",
                      nearest.empty() ? absl::StrCat("; give one of ", all) : DidYouMean(nearest));
}

}  // namespace

std::string WhatIsWrong(const CLI::ParseError& error, const CLI::App& app, Command* verb,
                        const std::string& unknown_flag) {
  // For other errors CLI11's message says more.
  const bool names = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError) ||
                     error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  const std::string no_place = names ? NoPlace(app, verb, unknown_flag) : "";
  return no_place.empty() ? error.what() : no_place;
}

std::string HelpCommand(const CLI::App& app) {
  std::string words;
  for (const CLI::App* at = &Innermost(app); at != nullptr; at = at->get_parent())
    words = absl::StrCat(at->get_name(), words.empty() ? "" : " ", words);
  return absl::StrCat(words, " --help");
}

}  // namespace dp::ctl
