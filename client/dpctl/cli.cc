#include "client/dpctl/cli.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/dpctl/command.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/verbs.h"
#include "client/nearest_name.h"

namespace dp::ctl {
namespace {

constexpr char kDefaultCoordinator[] = "127.0.0.1:7070";

using Commands = std::vector<std::unique_ptr<Command>>;

void DefineGlobalFlags(CLI::App& app, GlobalFlags& flags) {
  app.add_option("--coordinator", flags.coordinator, "Address of the coordinator")
      ->envname("DPCTL_COORDINATOR")
      ->default_str(kDefaultCoordinator)
      ->type_name("HOST:PORT");
  AddDuration(app, "--timeout", flags.timeout, "How long to try to reach it")->default_str("10s");
  app.add_option("-o,--output", flags.format, "table, json or name")
      ->transform(CLI::Transformer(std::map<std::string, Format>{
          {"table", Format::kTable}, {"json", Format::kJson}, {"name", Format::kName}}))
      ->default_str("table")
      ->type_name("FORMAT");
  app.add_flag("--no-headers", flags.no_headers, "Tables without their first line");
}

void DefineVerbs(CLI::App& app, const Commands& commands) {
  app.require_subcommand(1);
  app.fallthrough();  // the global flags may stand behind the verb, too
  for (const auto& command : commands) {
    CLI::App* verb = app.add_subcommand(command->name(), command->summary());
    verb->footer(absl::StrCat("Example:\n  ", command->example()));
    command->DefineFlags(*verb);
  }
}

// "; did you mean 'submit'?" where some word of the command line is nearly a verb.
std::string Hint(int argc, const char* const* argv, const Commands& commands) {
  std::vector<std::string> verbs;
  for (const auto& command : commands) verbs.push_back(command->name());
  for (int i = 1; i < argc; ++i) {
    const std::string nearest = client::NearestName(argv[i], verbs);
    if (!nearest.empty() && nearest != argv[i])
      return absl::StrCat("; did you mean '", nearest, "' instead of '", argv[i], "'?");
  }
  return "";
}

int Report(const absl::Status& status, Context& context) {
  context.out().flush();
  context.err() << "dpctl: " << status.message();
  if (ExitCodeOf(status) == kUnreachable)
    context.err() << "\nIs the coordinator running there? Give its address with --coordinator or "
                     "DPCTL_COORDINATOR.";
  context.err() << std::endl;
  return ExitCodeOf(status);
}

int Run(Command& command, Surroundings& surroundings, const GlobalFlags& flags) {
  if (command.TakesInterrupts()) surroundings.catch_signals();
  Context context(surroundings, flags);
  const absl::StatusOr<int> code = command.Run(context);
  context.out().flush();
  return code.ok() ? *code : Report(code.status(), context);
}

}  // namespace

std::vector<std::unique_ptr<Command>> AllCommands() {
  Commands commands;
  for (auto* make : {MakeSubmit, MakeRun, MakePs, MakeDescribe, MakeLogs, MakeWait, MakeCancel,
                     MakeWorkers, MakeStore})
    commands.push_back(make());
  return commands;
}

int RunCommandLine(int argc, const char* const* argv, Surroundings& surroundings) {
  CLI::App app("The command line of dp, a service for distributed training jobs", "dpctl");
  GlobalFlags flags{.coordinator = kDefaultCoordinator};
  const Commands commands = AllCommands();
  DefineGlobalFlags(app, flags);
  DefineVerbs(app, commands);
  // What stands behind "--" is another program's, flags and all.
  const char* const* end = argv + argc;
  const char* const* dashes =
      std::find_if(argv, end, [](const char* word) { return std::string(word) == "--"; });
  try {
    app.parse(static_cast<int>(dashes - argv), argv);
  } catch (const CLI::Success& help) {
    return app.exit(help, surroundings.terminal.out, surroundings.terminal.err);
  } catch (const CLI::ParseError& error) {
    surroundings.terminal.err << "dpctl: " << error.what() << Hint(argc, argv, commands)
                              << "\nSee 'dpctl --help'.\n";
    return kUsage;
  }
  for (const auto& command : commands) {
    if (!app.got_subcommand(command->name())) continue;
    if (dashes != end && !command->TakeProgram({dashes + 1, end})) {
      surroundings.terminal.err
          << "dpctl: '--' needs a program behind it, and run or submit before it\n";
      return kUsage;
    }
    return Run(*command, surroundings, flags);
  }
  return kUsage;
}

}  // namespace dp::ctl
