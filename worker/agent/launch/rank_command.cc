#include "worker/agent/launch/rank_command.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/limits.h"
#include "base/status.h"
#include "proto/convert/time.h"
#include "proto/job/model_layers.h"
#include "proto/job/trainer_program.h"
#include "worker/agent/sandbox/program_rule.h"

namespace dp::worker {
namespace {

// The dp variables that describe the host and not a place in a job.
constexpr std::string_view kOfTheHost[] = {"DP_CUDA_PLAN_CACHE"};

// Variables by which libraries of many programs load code: those of ld.so(8), glibc, OpenSSL, the
// CUDA driver, NCCL and OpenMP. Each stands for all that begin with it.
constexpr std::string_view kLoaderVariables[] = {"LD_",
                                                 "GCONV_PATH",
                                                 "OPENSSL_CONF",
                                                 "OPENSSL_ENGINES",
                                                 "OPENSSL_MODULES",
                                                 "CUDA_INJECTION",
                                                 "NCCL_NET_PLUGIN",
                                                 "NCCL_TUNER_PLUGIN",
                                                 "NCCL_PROFILER_PLUGIN",
                                                 "OMP_TOOL_LIBRARIES"};

bool LoadsCode(std::string_view name) {
  return std::any_of(std::begin(kLoaderVariables), std::end(kLoaderVariables),
                     [name](std::string_view begin) { return name.starts_with(begin); });
}

bool IsPassedOn(std::string_view name) {
  return !name.starts_with(kReservedVariables) ||
         std::find(std::begin(kOfTheHost), std::end(kOfTheHost), name) != std::end(kOfTheHost);
}

// How often an idle thread of libgomp looks for work before it sleeps: about 50 us. The default,
// 300,000, is several ms at each of thousands of barriers. If the ranks of a host have more threads
// than it has processors, waiting threads keep the processors from the threads that they wait for.
// Other programs on the host have the same effect. A training of 2.5 s took 69 s. libgomp itself
// takes 1,000, but only if the threads of one process are too many.
constexpr char kSpins[] = "1000";

// The owner of the host, or of the job, may choose.
bool ChoosesSpins(const std::string& name) {
  return name == "GOMP_SPINCOUNT" || name == "OMP_WAIT_POLICY";
}

void LimitSpins(const v1::JobSpec& spec, Environment* environment) {
  const auto chooses = [](const auto& variable) { return ChoosesSpins(variable.first); };
  if (std::any_of(environment->begin(), environment->end(), chooses)) return;
  if (std::any_of(spec.env().begin(), spec.env().end(), chooses)) return;
  (*environment)["GOMP_SPINCOUNT"] = kSpins;
}

// A daemon that was itself started by a rank must not pass on that rank's place.
Environment Inherited(const std::vector<std::string>& variables) {
  Environment environment;
  for (const std::string& variable : variables) {
    const size_t equals = variable.find('=');
    if (equals == variable.npos || !IsPassedOn(variable.substr(0, equals))) continue;
    environment[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  return environment;
}

// The daemon's XDG directories are those of the daemon's user.
void SetAccount(const Account& account, Environment* environment) {
  std::erase_if(*environment, [](const auto& each) { return each.first.starts_with("XDG_"); });
  (*environment)["HOME"] = account.home;
  (*environment)["USER"] = account.name;
  (*environment)["LOGNAME"] = account.name;
  (*environment)["SHELL"] = account.shell;
}

void AddPlace(const v1::AssignedRank& rank, const RankHost& host, const LogSpool& spool,
              Environment* environment) {
  const Environment place{
      {"DP_COORDINATOR", host.coordinator},
      {"DP_JOB", absl::StrCat(rank.job())},
      {"DP_GENERATION", absl::StrCat(rank.generation())},
      {"DP_RANK", absl::StrCat(rank.rank())},
      {"DP_WORLD_SIZE", absl::StrCat(rank.world_size())},
      {"DP_LOCAL_RANK", absl::StrCat(rank.local_rank())},
      {"DP_WORKER", host.worker},
      {"DP_ADDRESS", host.address},
      {"DP_METRICS_FILE", spool.path(v1::LOG_STREAM_METRICS)},
  };
  for (const auto& [name, value] : place) (*environment)[name] = value;
  if (!HasCredential(rank, host)) return;
  (*environment)["DP_CREDENTIALS"] = spool.credential_dir();
  if (host.accept_other_users) (*environment)["DP_ACCEPT_OTHER_USERS"] = "1";
}

// Why a rank that may use its slot's GPU does not; empty if it does, or may not.
std::string WhyNotOnGpu(const v1::AssignedRank& rank, const RankHost& host) {
  const bool would = rank.spec().train().device() == "auto" && !rank.on_gpu();
  if (!would || DevicesOf(rank.slot(), host.facts).empty()) return "";
  if (host.cuda_trainer.empty()) return host.no_cuda_trainer;
  return "not every rank of its generation has a GPU to train on, or train.backend is gloo or shm";
}

void SetTrainer(const v1::AssignedRank& rank, const RankHost& host, Environment* environment,
                RankCommand* command) {
  command->argv = {rank.on_gpu() ? host.cuda_trainer : host.trainer};
  if (const std::string reason = WhyNotOnGpu(rank, host); !reason.empty()) {
    (*environment)["DP_NO_GPU_BECAUSE"] = reason;
  }
  if (rank.on_gpu()) {
    (*environment)["DP_DEVICE"] = "cuda";
    // Only its own, so that its GPU is the first one that the rank sees.
    (*environment)["CUDA_VISIBLE_DEVICES"] = absl::StrJoin(DevicesOf(rank.slot(), host.facts), ",");
  }
  (*environment)["OMP_NUM_THREADS"] = absl::StrCat(std::max(rank.spec().threads_per_rank(), 1));
  LimitSpins(rank.spec(), environment);
}

void SetProgram(const v1::AssignedRank& rank, const RankHost& host, const StoreEndpoint& store,
                const LogSpool& spool, Environment* environment, RankCommand* command) {
  const v1::CommandSpec& spec = rank.spec().command();
  for (const auto& [name, value] : PlaceOf(rank, host.facts, store, spool.error_file())) {
    (*environment)[name] = value;
  }
  environment->merge(LaunchDefaults(rank, host.facts));
  command->argv = ArgvOf(rank);
  if (!command->argv.empty() && command->argv[0] == kTrainerProgram)
    command->argv[0] = host.trainer;
  command->working_dir = spec.working_dir();
}

// A program must not run without a secret that it was promised. The coordinator says why one is
// missing.
absl::Status AddSecrets(const v1::AssignedRank& rank, Environment* environment) {
  if (!rank.no_secrets().empty()) return absl::FailedPreconditionError(rank.no_secrets());
  std::set<std::string> missing(rank.spec().secrets().begin(), rank.spec().secrets().end());
  for (const v1::Secret& secret : rank.secrets()) {
    if (missing.erase(secret.name()) > 0) (*environment)[secret.name()] = secret.value();
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("job ", rank.job(),
                                                    ": the coordinator sent no value of secret ",
                                                    *missing.begin(), "; submit the job again"));
}

absl::Status CheckVariables(const v1::AssignedRank& rank, const RankHost& host) {
  std::set<std::string> names;
  for (const auto& [name, value] : rank.spec().env()) names.insert(name);
  names.insert(rank.spec().secrets().begin(), rank.spec().secrets().end());
  const auto loads = std::find_if(names.begin(), names.end(), LoadsCode);
  if (loads == names.end()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("job ", rank.job(), ": worker ", host.worker,
                   " allows only some programs (--allow-program), and variable ", *loads,
                   " can make them run others; remove it from the job, or choose another worker"));
}

// A plug-in is a program that the trainer runs. Its path must match as it stands; the directories
// that patterns name are the host's, and so are links in them.
absl::Status CheckPlugins(const v1::AssignedRank& rank, const RankHost& host) {
  for (const std::string& library : PluginLibraries(rank.spec().train().model())) {
    const bool plain = std::filesystem::path(library).lexically_normal() == library;
    const bool allowed =
        std::any_of(host.sandbox.allowed_programs.begin(), host.sandbox.allowed_programs.end(),
                    [&](const std::string& pattern) { return AllowsProgram(pattern, library); });
    if (plain && allowed) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", rank.job(), ": worker ", host.worker, " does not allow the plug-in library ",
        library, "; choose another one, or start the worker with --allow-program ", library));
  }
  return absl::OkStatus();
}

// The daemon's own trainer, which train jobs run, needs no permission.
bool RunsTrainer(const v1::JobSpec& spec) {
  if (!spec.has_command()) return true;
  return spec.command().argv_size() > 0 && spec.command().argv(0) == kTrainerProgram;
}

absl::Status LimitPrograms(const v1::AssignedRank& rank, const RankHost& host,
                           RankCommand* command) {
  if (host.sandbox.allowed_programs.empty()) return absl::OkStatus();
  DP_RETURN_IF_ERROR(CheckVariables(rank, host));
  DP_RETURN_IF_ERROR(CheckPlugins(rank, host));
  if (!RunsTrainer(rank.spec())) command->allowed_programs = host.sandbox.allowed_programs;
  return absl::OkStatus();
}

bool StopsWhenIsolated(const v1::JobSpec& spec) {
  return (spec.has_command() ? spec.command().on_isolation() : spec.train().on_isolation()) ==
         "stop";
}

}  // namespace

absl::StatusOr<RankCommand> CommandFor(const v1::AssignedRank& rank, const RankHost& host,
                                       const StoreEndpoint& store, const LogSpool& spool,
                                       const std::optional<Account>& run_as) {
  Environment environment = Inherited(host.environment);
  if (host.sandbox.private_tmp)
    environment.erase("TMPDIR");  // that of the daemon is no private one
  if (run_as) SetAccount(*run_as, &environment);
  AddPlace(rank, host, spool, &environment);
  RankCommand command{.stdout_path = spool.path(v1::LOG_STREAM_STDOUT),
                      .stderr_path = spool.path(v1::LOG_STREAM_STDERR),
                      .exit_path = spool.exit_file()};
  command.memory_bytes = int64_t{rank.spec().memory_mib_per_rank()} << 20;
  command.new_privileges = host.new_privileges;
  command.run_as = run_as;
  command.worker = host.worker;
  if (host.sandbox.needs_mounts()) {
    command.mounts = MountsOf(host.sandbox, spool.generation_dir());
  }
  DP_RETURN_IF_ERROR(LimitPrograms(rank, host, &command));
  switch (rank.spec().program_case()) {
    case v1::JobSpec::kTrain:
      SetTrainer(rank, host, &environment, &command);
      break;
    case v1::JobSpec::kCommand:
      SetProgram(rank, host, store, spool, &environment, &command);
      break;
    case v1::JobSpec::PROGRAM_NOT_SET:
      return absl::UnimplementedError(
          absl::StrCat("job ", rank.job(),
                       " names no program that this worker can run; it knows train and "
                       "command"));
  }
  for (const auto& [name, value] : rank.spec().env()) {
    if (!name.starts_with(kReservedVariables)) environment[name] = value;
  }
  DP_RETURN_IF_ERROR(AddSecrets(rank, &environment));
  command.no_core = !rank.secrets().empty();
  for (const auto& [name, value] : environment) {
    command.environment.push_back(absl::StrCat(name, "=", value));
  }
  return command;
}

// A coordinator of an earlier release gives no token.
bool HasCredential(const v1::AssignedRank& rank, const RankHost& host) {
  return !rank.token().empty() && !host.credential_dir.empty();
}

std::vector<std::string> SecretsOf(const v1::AssignedRank& rank) {
  std::vector<std::string> values;
  for (const v1::Secret& secret : rank.secrets()) values.push_back(secret.value());
  return values;
}

RankKey KeyOf(const v1::AssignedRank& rank) {
  return {JobId(rank.job()), Generation(rank.generation()), rank.rank()};
}

AssignedRank FromProto(const v1::AssignedRank& rank) {
  return {.key = KeyOf(rank),
          .stop = rank.stop(),
          .grace = rank.spec().has_grace() ? dp::FromProto(rank.spec().grace()) : kGraceDefault,
          .stop_when_isolated = StopsWhenIsolated(rank.spec()),
          .slot = rank.slot(),
          .job_submitted_at = dp::FromProto(rank.submitted_at())};
}

}  // namespace dp::worker
