#include "client/dpctl/program/cli.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/host_port.h"
#include "base/status.h"
#include "base/utf8.h"
#include "base/version.h"
#include "client/absence.h"
#include "client/dpctl/command.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/program/usage_error.h"
#include "client/dpctl/run/job_source.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/printable.h"
#include "client/retry_policy.h"

namespace dp::ctl {
namespace {

constexpr char kDefaultCoordinator[] = "127.0.0.1:7070";

// The help of dpctl in CLI11's layout, with usage lines that name programs and their arguments,
// which CLI11 does not know. Shared by the commands of one App; one thread.
class HelpText final : public CLI::Formatter {
 public:
  HelpText() {
    label("SUBCOMMAND", "COMMAND");
    label("Subcommands", "Commands");
    label("Positionals", "Arguments");
  }

  // The usage lines: the words that may follow the command and its flags.
  void SetUsages(const CLI::App& verb, std::vector<std::string> usages) {
    usages_[&verb] = std::move(usages);
  }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    const auto usages = usages_.find(app);
    if (usages == usages_.end()) return Formatter::make_usage(app, name);
    std::string lines;
    for (const std::string& usage : usages->second)
      absl::StrAppend(&lines, lines.empty() ? "Usage: " : "       ", name, " [OPTIONS] ", usage,
                      "\n");
    return lines;
  }

 private:
  std::map<const CLI::App*, std::vector<std::string>> usages_;
};

using Commands = std::vector<std::unique_ptr<Command>>;

const std::map<std::string, Format>& Formats() {
  static const std::map<std::string, Format> formats = {
      {"table", Format::kTable}, {"json", Format::kJson}, {"name", Format::kName}};
  return formats;
}

// "-o=json" means "-o json".
std::string FormatName(absl::string_view text) {
  absl::ConsumePrefix(&text, "=");
  return std::string(text);
}

void AddFormat(CLI::App& app, Format& format) {
  const auto set = [&format](const std::string& text) { format = Formats().at(FormatName(text)); };
  const auto check = [](const std::string& text) -> std::string {
    if (Formats().contains(FormatName(text))) return "";
    return absl::StrCat("'", text, "' is no format; expected table, json or name");
  };
  app.add_option_function<std::string>("-o,--output", set, "table, json or name")
      ->check(check)
      ->default_str("table")
      ->type_name("FORMAT");
}

void DefineGlobalFlags(CLI::App& app, GlobalFlags& flags) {
  app.add_option("--coordinator", flags.coordinator, "Address of the coordinator")
      ->envname("DPCTL_COORDINATOR")
      ->default_str(kDefaultCoordinator)
      ->type_name("HOST:PORT");
  app.add_option("--credentials", flags.credentials.dir,
                 "Directory with ca.crt, tls.crt and tls.key; default: that of 'dpctl login', or "
                 "of a coordinator of yours on this host")
      ->envname("DP_CREDENTIALS")
      ->check(WhyEmpty)
      ->type_name("DIR");
  app.add_flag("--insecure", flags.credentials.insecure,
               "Call the coordinator in plain text, which proves nothing and hides nothing")
      ->envname("DP_INSECURE");
  app.add_flag("--accept-other-users", flags.credentials.accept_other_users,
               "Use a credential although other users own it, or can write it or read its key")
      ->envname("DP_ACCEPT_OTHER_USERS");
  AddDuration(app, "--timeout", flags.timeout, "How long to try to reach the coordinator")
      ->default_str("10s");
  AddFormat(app, flags.format);
  app.add_flag("--no-headers", flags.no_headers, "Tables without their first line");
  app.set_version_flag("--version", VersionLine("dpctl"), "Print the version and exit");
}

void DefineVerbs(CLI::App& app, const Commands& commands) {
  app.require_subcommand(1);
  app.fallthrough();  // global flags may also follow the verb
  const auto help = std::make_shared<HelpText>();
  app.formatter(help);  // before the verbs, which inherit it
  for (const auto& command : commands) {
    CLI::App* verb = app.add_subcommand(command->name(), command->summary());
    verb->footer(absl::StrCat("Example:\n  ", command->example()));
    command->DefineFlags(*verb);
    if (const JobSource* source = command->source()) help->SetUsages(*verb, source->Usages());
  }
}

// Keeps line breaks.
std::string PrintableLines(absl::string_view text) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) lines.push_back(Printable(line));
  return absl::StrJoin(lines, "\n");
}

void Report(const absl::Status& status, const Command& command, Context& context) {
  context.out().flush();  // the command's output comes first
  context.err() << "dpctl: " << PrintableLines(status.message());
  if (const client::Absence absence = client::AbsenceIn(status);
      absence != client::Absence::kNone) {
    context.err() << (absence == client::Absence::kNoneOnThisHost
                          ? "\nIf it runs elsewhere, give"
                          : "\nIs the coordinator running there? Give")
                  << " its address with --coordinator or DPCTL_COORDINATOR.";
    if (const std::string flag = command.FlagToRunHere(); !flag.empty())
      context.err() << " Or run on this machine alone, with " << flag << '.';
  }
  if (client::IsRateLimited(status))
    context.err() << "\nTry again later, or allow more time with --timeout.";
  context.err() << std::endl;
}

int Run(Command& command, Surroundings& surroundings, const GlobalFlags& flags) {
  if (command.TakesInterrupts()) surroundings.catch_signals();
  Context context(surroundings, flags);
  const absl::StatusOr<int> code = command.Run(context);
  if (code.ok()) {
    context.RenewLogin();
    return *code;
  }
  Report(code.status(), command, context);
  const int failed = ExitCodeOf(code.status());
  // Access is no matter of the job, which may run on.
  return failed == kFailed && !context.refused() ? command.CodeOfFailure() : failed;
}

// The verb on the command line, and its place; null if there is none.
struct VerbAt {
  Command* command = nullptr;
  const char* const* word = nullptr;
};
VerbAt VerbOf(const char* const* begin, const char* const* end, const Commands& commands) {
  for (const char* const* word = begin; word != end; ++word) {
    for (const auto& command : commands)
      if (std::string(*word) == command->name()) return {command.get(), word};
  }
  return {};
}

// The first word that would have to be sent as text and is not UTF-8; null if there is none.
const char* NotTextIn(const char* const* begin, const char* const* end) {
  for (const char* const* word = begin; word != end; ++word) {
    // Keys and values after "store VERB JOB" are bytes.
    if (std::string(*word) == "store") end = std::min(end, word + 3);
    if (!IsUtf8(*word)) return *word;
  }
  return nullptr;
}

// Whether a flag, written as `word` on the command line of `verb`, takes the next word as its
// value.
bool TakesNextWord(const std::string& word, const CLI::App& verb) {
  const bool is_long = absl::StartsWith(word, "--");
  // "--flag=value" and "-fvalue" contain the value.
  if (is_long ? absl::StrContains(word, '=') : word.size() > 2) return false;
  for (const CLI::App* app = &verb; app != nullptr; app = app->get_parent()) {
    const CLI::Option* option = app->get_option_no_throw(word);
    if (option != nullptr) return option->get_items_expected_max() > 0;
  }
  return false;
}

// Whether the verb, or dpctl itself, has the flag that is written as `word`.
bool IsFlag(const std::string& word, const CLI::App& verb) {
  const bool is_long = absl::StartsWith(word, "--");
  const std::string name = is_long ? word.substr(0, word.find('=')) : word.substr(0, 2);
  for (const CLI::App* app = &verb; app != nullptr; app = app->get_parent()) {
    if (app->get_option_no_throw(name) != nullptr) return true;
  }
  return false;
}

// Where the words of a program begin behind the verb at `at`, without "--" before them. The program
// begins at the first word that is no flag, if the command takes that word for a program. Else
// returns `end`, also at a flag that does not exist, which is then the `unknown_flag`.
// Errors: InvalidArgument the word was meant for a flag.
absl::StatusOr<const char* const*> ProgramBehind(const char* const* at, const char* const* end,
                                                 const JobSource& source, const CLI::App& verb,
                                                 std::string* unknown_flag) {
  std::vector<std::string> before;
  for (const char* const* word = at + 1; word < end; ++word) {
    const std::string text = *word;
    if (text.size() < 2 || text.front() != '-') {
      DP_ASSIGN_OR_RETURN(const bool program, source.StartsProgram(text, before));
      return program ? word : end;
    }
    // The next word is the value of a flag that does not exist, or a program: nobody knows.
    if (!IsFlag(text, verb)) {
      *unknown_flag = text;
      return end;
    }
    before.push_back(text);
    if (TakesNextWord(text, verb)) ++word;
  }
  return end;
}

int WrongUsage(absl::string_view what, const CLI::App& app, Terminal& terminal) {
  terminal.err << "dpctl: " << Printable(what) << "\nSee '" << HelpCommand(app) << "'.\n";
  return kUsage;
}

// Whether the words name a coordinator, besides DPCTL_COORDINATOR.
bool NamesCoordinator(const char* const* begin, const char* const* end) {
  return std::any_of(begin, end, [](absl::string_view word) {
    return word == "--coordinator" || absl::StartsWith(word, "--coordinator=");
  });
}

int Dispatch(int argc, const char* const* argv, Surroundings& surroundings) {
  Terminal& terminal = surroundings.terminal;
  CLI::App app("The command line of dp, a service for distributed training jobs", "dpctl");
  GlobalFlags flags{.coordinator = kDefaultCoordinator};
  const Commands commands = AllCommands();
  DefineGlobalFlags(app, flags);
  DefineVerbs(app, commands);
  const char* const* end = argv + argc;
  const char* const* dashes =
      std::find_if(argv, end, [](const char* word) { return std::string(word) == "--"; });
  const auto [verb, verb_word] = VerbOf(argv + 1, dashes, commands);
  if (const char* word = NotTextIn(argv + 1, end)) {
    terminal.err << "dpctl: the argument \"" << absl::CEscape(word)
                 << "\" is not UTF-8; other bytes cannot be sent\n";
    return kUsage;
  }
  JobSource* const source = verb == nullptr ? nullptr : verb->source();
  // Behind "--" stand arguments, also those that begin with "-"; or a program, to which all words
  // belong, flags included.
  if (verb != nullptr && source == nullptr) dashes = end;
  absl::StatusOr<const char* const*> found = dashes;
  std::string unknown_flag;
  if (source != nullptr)
    found =
        ProgramBehind(verb_word, dashes, *source, *app.get_subcommand(verb->name()), &unknown_flag);
  if (!found.ok()) return WrongUsage(found.status().message(), app, terminal);
  const char* const* const program = *found;
  const bool behind_dashes = program == dashes;
  try {
    app.parse(static_cast<int>(program - argv), argv);
  } catch (const CLI::Success& help) {
    return app.exit(help, terminal.out, terminal.err);
  } catch (const CLI::ParseError& error) {
    return WrongUsage(WhatIsWrong(error, app, verb, unknown_flag), app, terminal);
  }
  for (const auto& command : commands) {
    if (!app.got_subcommand(command->name())) continue;
    const absl::Status address = ParseHostPort(flags.coordinator).status();
    if (!address.ok() && command->NeedsCoordinator()) {
      terminal.err << "dpctl: the coordinator's address " << address.message()
                   << " (--coordinator or DPCTL_COORDINATOR)\n";
      return kUsage;
    }
    if (!command->NeedsCoordinator() && NamesCoordinator(argv + 1, program))
      terminal.err << "dpctl: --coordinator " << Printable(flags.coordinator)
                   << " is ignored: dpctl starts a coordinator for this job alone\n";
    const bool taken =
        program == end ||
        (source != nullptr && source->TakeProgram({behind_dashes ? program + 1 : program, end}));
    if (!taken) {
      terminal.err << "dpctl: '--' must be followed by a program, and follow run, submit, torchrun "
                      "or launch\n";
      return kUsage;
    }
    return Run(*command, surroundings, flags);
  }
  return kUsage;
}

// Lost output turns a success into a failure, unless the reader closed the pipe, as head does.
int Delivered(int code, Terminal& terminal) {
  terminal.out.flush();
  const int error = terminal.write_error();
  if (error == 0 || error == EPIPE) return code;
  terminal.err << "dpctl: standard output cannot be written: " << std::strerror(error) << '\n';
  return code == kSuccess ? kFailed : code;
}

}  // namespace

int RunCommandLine(int argc, const char* const* argv, Surroundings& surroundings) {
  return Delivered(Dispatch(argc, argv, surroundings), surroundings.terminal);
}

}  // namespace dp::ctl
