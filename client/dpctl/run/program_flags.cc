#include "client/dpctl/run/program_flags.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/signal_name.h"
#include "base/status.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/run/program_line.h"
#include "client/dpctl/run/script_text.h"
#include "proto/convert/time.h"
#include "proto/job/job_spec.h"

namespace dp::ctl {
namespace {

// Under the contract "launch", dp-worker replaces this by the rank's local rank.
constexpr char kLocalRankMacro[] = "=${local_rank}";

// Sets a field unless `value` is empty, and marks it as given for the defaults.
void Set(const std::string& value, const std::string& path, client::JobFile& job,
         std::string* field) {
  if (value.empty()) return;
  *field = value;
  job.source.Note(path, {});
}

// torchrun's variable names the interpreter; without it, the first python3 in the rank's PATH.
std::string Python() {
  const char* python = std::getenv("PYTHON_EXEC");
  return python == nullptr || *python == '\0' ? "python3" : python;
}

std::vector<std::string> EnvironmentHere() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  return variables;
}

// Errors: InvalidArgument names the flag if its value is no number from 0 on.
absl::StatusOr<int> NumberOf(const TorchrunFlags& flags, const std::string& name) {
  const std::string text = flags.Value(name);
  int number = 0;
  if (text.empty() || (absl::SimpleAtoi(text, &number) && number >= 0)) return number;
  return absl::InvalidArgumentError(
      absl::StrCat(flags.Origin(name), " is \"", text, "\"; expected a number from 0 on"));
}

// Errors: InvalidArgument names the flag and the first word that is no signal.
absl::Status CheckSignals(const TorchrunFlags& flags) {
  const std::string text = flags.Value("signals-to-handle");
  if (text.empty()) return absl::OkStatus();
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    if (IsSignalName(absl::StripAsciiWhitespace(word))) continue;
    return absl::InvalidArgumentError(absl::StrCat(flags.Origin("signals-to-handle"), " is \"",
                                                   text, "\"; \"", word,
                                                   "\" is no signal; expected names, as "
                                                   "SIGTERM,SIGUSR1"));
  }
  return absl::OkStatus();
}

}  // namespace

void ProgramFlags::DefineFlags(CLI::App& app) {
  app_ = &app;
  torchrun_.DefineFlags(app);
  const char* group = "Program flags";
  app.add_option("--name", name_, "Job name; default: the program's name")
      ->check(WhyEmpty)
      ->group(group);
  env_.DefineFlags(app, group);
  app.add_option("--workdir", workdir_,
                 "Working directory on every host; default: the current directory")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--contract", contract_, "torchrun, launch, tensorflow, jax, mpi or plain")
      ->group(group);
  app.add_option("--store", store_,
                 "Who serves the rendezvous store: relay, rank0, direct or program")
      ->group(group);
  AddDuration(app, "--detect-within", detect_within_,
              "How long a collective may block before the job fails")
      ->group(group);
  if (launching_ == Launching::kLaunch)
    app.add_flag("--use-env,--use_env", use_env_,
                 "Pass the local rank only as LOCAL_RANK, not as the argument --local-rank")
        ->group(group);
}

std::vector<std::string> ProgramFlags::Notes(bool lines_shown) const {
  std::vector<std::string> lines = torchrun_.Unneeded(lines_shown);
  for (std::string& line : env_.Unset(EnvironmentHere())) lines.push_back(std::move(line));
  return lines;
}

std::string ProgramFlags::given() const {
  for (const char* flag : {"--name", "--env", "--env-from-here", "--workdir", "--contract",
                           "--store", "--detect-within"})
    if (app_->count(flag) > 0) return flag;
  return torchrun_.given();
}

bool ProgramFlags::StartsProgram(absl::string_view word,
                                 const std::vector<std::string>& before) const {
  if (launching_ != Launching::kDp || IsScript(word)) return true;
  return std::any_of(before.begin(), before.end(), [](const std::string& flag) {
    return flag == "-m" || flag == "--module" || flag == "--no-python" || flag == "--no_python" ||
           flag == "--run-path" || flag == "--run_path";
  });
}

absl::StatusOr<std::vector<std::string>> ProgramFlags::Argv(const std::vector<std::string>& words,
                                                            const std::string& dir) const {
  const bool run_path = torchrun_.On("run-path");
  DP_ASSIGN_OR_RETURN(std::vector<std::string> argv,
                      RankArgv(words, {.always_python = launching_ != Launching::kDp || run_path,
                                       .module = torchrun_.On("module"),
                                       .no_python = torchrun_.On("no-python") && !run_path,
                                       .python = Python()}));
  const bool launch = contract_.empty() ? launching_ == Launching::kLaunch : contract_ == "launch";
  if (!launch || use_env_) return argv;
  const size_t script = ScriptIn(argv);
  const std::string flag = LocalRankFlag(ScriptText(dir, argv[script]));
  argv.insert(argv.begin() + static_cast<std::ptrdiff_t>(script) + 1, flag + kLocalRankMacro);
  return argv;
}

absl::StatusOr<client::JobFile> ProgramFlags::Job(const std::vector<std::string>& words,
                                                  const std::string& working_dir) const {
  const std::string dir = (std::filesystem::path(working_dir) / workdir_).string();
  DP_ASSIGN_OR_RETURN(const std::vector<std::string> argv, Argv(words, dir));
  client::JobFile job{.spec = {}, .source = client::FieldSource("command line"), .secrets = {}};
  job.spec.set_api_version("dp/v1");
  job.spec.set_kind("Job");
  job.spec.set_name(name_.empty() ? NameAfter(argv) : name_);
  v1::CommandSpec& command = *job.spec.mutable_command();
  for (const std::string& word : argv) command.add_argv(word);
  command.set_working_dir(dir);
  Set(torchrun_.Value("nnodes"), "command.nodes", job, command.mutable_nodes());
  Set(torchrun_.Value("nproc-per-node"), "command.nprocPerNode", job,
      command.mutable_nproc_per_node());
  if (launching_ == Launching::kLaunch)
    Set("launch", "command.contract", job, command.mutable_contract());
  Set(contract_, "command.contract", job, command.mutable_contract());
  Set(store_, "command.store", job, command.mutable_store());
  command.set_virtual_local_rank(torchrun_.On("virtual-local-rank"));
  NameFields(job.source);
  DP_RETURN_IF_ERROR(FillNumbers(job.spec));
  DP_RETURN_IF_ERROR(FillEnv(job.spec));
  for (const auto& [name, value] : job.spec.env())
    job.source.NoteName("env." + name, "--env " + name);
  return job;
}

void ProgramFlags::NameFields(client::FieldSource& source) const {
  for (const auto& [path, flag] :
       {std::pair("command.nodes", "nnodes"), std::pair("command.nprocPerNode", "nproc-per-node"),
        std::pair("command.maxRestarts", "max-restarts"), std::pair("grace", "shutdown-timeout")})
    source.NoteName(path, torchrun_.Origin(flag));
  for (const auto& [path, flag] :
       {std::pair("name", "--name"), std::pair("command.contract", "--contract"),
        std::pair("command.store", "--store"), std::pair("command.workingDir", "--workdir"),
        std::pair("detectWithin", "--detect-within")})
    source.NoteName(path, flag);
  source.NoteName("ranks", "--nnodes times --nproc-per-node");
}

absl::Status ProgramFlags::FillNumbers(v1::JobSpec& spec) const {
  DP_ASSIGN_OR_RETURN(const int restarts, NumberOf(torchrun_, "max-restarts"));
  spec.mutable_command()->set_max_restarts(restarts);
  DP_ASSIGN_OR_RETURN(const int seconds, NumberOf(torchrun_, "shutdown-timeout"));
  if (!torchrun_.Value("shutdown-timeout").empty())
    *spec.mutable_grace() = ToProto(absl::Seconds(seconds));
  if (detect_within_ > absl::ZeroDuration())
    *spec.mutable_detect_within() = ToProto(detect_within_);
  return absl::OkStatus();
}

// A rank's own environment takes precedence over its worker's, and --env over torchrun's flags.
absl::Status ProgramFlags::FillEnv(v1::JobSpec& spec) const {
  DP_RETURN_IF_ERROR(CheckSignals(torchrun_));
  for (const auto& [flag, variable] :
       {std::pair("role", "ROLE_NAME"), std::pair("rdzv-id", "TORCHELASTIC_RUN_ID"),
        std::pair("signals-to-handle", "TORCHELASTIC_SIGNALS_TO_HANDLE")}) {
    const std::string value = torchrun_.Value(flag);
    if (!value.empty()) (*spec.mutable_env())[variable] = value;
  }
  return env_.Fill(EnvironmentHere(), *spec.mutable_env());
}

}  // namespace dp::ctl
