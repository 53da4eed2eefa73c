#include "client/dpctl/run/torchrun_flags.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace dp::ctl {
namespace {

enum class Use {
  kUsed,
  kShown,  // by commands that show the lines of ranks; not needed by others
  kUnneeded,
  kElsewhere,  // another command does it; an error here
};

struct TorchrunFlag {
  const char* name;
  const char* letter;      // "-r"; empty: none
  const char* value_name;  // null: a switch
  Use use;
  const char* text;  // help; if unneeded, why; if elsewhere, where
};

constexpr char kMeeting[] = "the coordinator brings the ranks together";
constexpr char kPlace[] = "the coordinator numbers the workers: run this once, not on each node";
constexpr char kAddress[] = "a worker's address is that of its dp-worker (--address)";
constexpr char kStart[] = "each rank is a fresh process under its own guard";
constexpr char kExit[] = "dp-worker is notified when a rank exits, and never polls";
constexpr char kEvents[] = "'dpctl events' shows what happened to the job";
constexpr char kLogs[] = "'dpctl logs' reads every rank's output, also by rank and stream";
constexpr char kNuma[] = "dp binds no rank to CPUs; start the program with numactl for that";
constexpr char kCompletion[] =
    "'dpctl completion bash' and 'dpctl completion zsh' print the scripts for these shells";

constexpr TorchrunFlag kFlags[] = {
    {"nnodes", "", "NODES", Use::kUsed, "Workers that share the ranks, N or MIN:MAX"},
    {"nproc-per-node", "", "RANKS", Use::kUsed, "Ranks on each: a number, gpu, cpu or auto"},
    {"max-restarts", "", "N", Use::kUsed, "Restarts after the program failed; 0 by default"},
    {"module", "-m", nullptr, Use::kUsed, "The program is a Python module, as for python -m"},
    {"no-python", "", nullptr, Use::kUsed, "Run the program itself, not python with it"},
    {"run-path", "", nullptr, Use::kUsed, "The program is a Python script"},
    {"role", "", "ROLE", Use::kUsed, "ROLE_NAME of the ranks"},
    {"rdzv-id", "", "ID", Use::kUsed, "TORCHELASTIC_RUN_ID of the ranks"},
    {"signals-to-handle", "", "SIGNALS", Use::kUsed, "TORCHELASTIC_SIGNALS_TO_HANDLE of the ranks"},
    {"shutdown-timeout", "", "SECONDS", Use::kUsed,
     "Grace between SIGTERM and SIGKILL; 30 by default"},
    {"virtual-local-rank", "", nullptr, Use::kUsed,
     "Each rank sees its own GPUs alone, and LOCAL_RANK is 0"},
    {"log-dir", "", "DIR", Use::kShown, "Directory of the files for --redirects and --tee"},
    {"redirects", "-r", "STREAMS", Use::kShown,
     "Lines that go to files: 1 stdout, 2 stderr, 3 both; of some local ranks: 0:1,1:3"},
    {"tee", "-t", "STREAMS", Use::kShown, "Lines that go to files and are shown"},
    {"local-ranks-filter", "", "RANKS", Use::kShown, "Show lines of these local ranks alone"},
    {"log-line-prefix-template", "", "TEMPLATE", Use::kShown,
     "Before each line: ${role_name}, ${local_rank}, ${rank}, ${hostname}"},
    {"rdzv-backend", "", "BACKEND", Use::kUnneeded, kMeeting},
    {"rdzv-endpoint", "", "HOST:PORT", Use::kUnneeded, kMeeting},
    {"rdzv-conf", "", "CONF", Use::kUnneeded, kMeeting},
    {"master-addr", "", "HOST", Use::kUnneeded, kMeeting},
    {"master-port", "", "PORT", Use::kUnneeded, kMeeting},
    {"node-rank", "", "N", Use::kUnneeded, kPlace},
    {"local-addr", "", "HOST", Use::kUnneeded, kAddress},
    {"start-method", "", "METHOD", Use::kUnneeded, kStart},
    {"monitor-interval", "", "SECONDS", Use::kUnneeded, kExit},
    {"event-log-handler", "", "NAME", Use::kUnneeded, kEvents},
    {"logs-specs", "", "NAME", Use::kUnneeded, kLogs},
    {"duplicate-stdout-filters", "", "FILTERS", Use::kUnneeded, kLogs},
    {"duplicate-stderr-filters", "", "FILTERS", Use::kUnneeded, kLogs},
    {"numa-binding", "", "MODE", Use::kUnneeded, kNuma},
    {"print-completion", "", "SHELL", Use::kElsewhere, kCompletion},
};

std::string WithUnderscores(absl::string_view name) {
  return absl::StrReplaceAll(name, {{"-", "_"}});
}

// "-r,--redirects", "--log-dir,--log_dir".
std::string NamesOf(const TorchrunFlag& flag) {
  std::string names = absl::StrCat(flag.letter, *flag.letter == 0 ? "" : ",", "--", flag.name);
  if (WithUnderscores(flag.name) != flag.name)
    absl::StrAppend(&names, ",--", WithUnderscores(flag.name));
  return names;
}

// "PET_RDZV_ID".
std::string VariableOf(absl::string_view name) {
  return absl::StrCat("PET_", absl::AsciiStrToUpper(WithUnderscores(name)));
}

std::string AsItIs(std::string value) { return value; }

// "-t=3" means "-t 3".
std::string WithoutEquals(std::string value) { return std::string(absl::StripPrefix(value, "=")); }

// Empty if it is not set.
std::string ValueOf(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  return value == nullptr ? "" : value;
}

}  // namespace

void TorchrunFlags::DefineFlags(CLI::App& app) {
  app_ = &app;
  for (const TorchrunFlag& flag : kFlags) {
    std::string* value = &values_[flag.name];
    const bool unneeded = flag.use == Use::kUnneeded || flag.use == Use::kElsewhere;
    const char* group = unneeded ? "torchrun flags that dp does not need" : "torchrun flags";
    const std::string help = unneeded ? absl::StrCat("Not needed: ", flag.text) : flag.text;
    if (flag.value_name == nullptr) {
      app.add_flag_callback(
             NamesOf(flag), [value] { *value = "1"; }, help)
          ->group(group);
    } else {
      app.add_option(NamesOf(flag), *value, help)
          ->transform(flag.letter[0] == 0 ? AsItIs : WithoutEquals)
          ->type_name(flag.value_name)
          ->expected(flag.use == Use::kElsewhere ? 0 : 1, 1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)  // as torchrun does
          ->group(group);
    }
  }
}

absl::Status TorchrunFlags::Check() const {
  for (const TorchrunFlag& flag : kFlags) {
    const std::string name = absl::StrCat("--", flag.name);
    if (flag.use == Use::kElsewhere && app_->count(name) > 0)
      return absl::InvalidArgumentError(absl::StrCat(name, ": ", flag.text));
    if (flag.value_name == nullptr) DP_RETURN_IF_ERROR(VariableSwitch(flag.name).status());
  }
  return absl::OkStatus();
}

std::string TorchrunFlags::Value(const std::string& name) const {
  const std::string& value = values_.at(name);
  return value.empty() ? ValueOf(VariableOf(name)) : value;
}

std::string TorchrunFlags::Origin(const std::string& name) const {
  return values_.at(name).empty() ? VariableOf(name) : absl::StrCat("--", name);
}

bool TorchrunFlags::On(const std::string& name) const {
  return !values_.at(name).empty() || VariableSwitch(name).value_or(false);
}

absl::StatusOr<bool> VariableSwitch(const std::string& name) {
  const std::string variable = VariableOf(name), value = ValueOf(variable);
  bool on = false;
  int number = 0;
  if (value.empty() || absl::SimpleAtob(value, &on)) return on;
  if (absl::SimpleAtoi(value, &number)) return number != 0;
  return absl::InvalidArgumentError(
      absl::StrCat(variable, " is \"", value, "\"; expected 1 for on, 0 for off"));
}

std::string TorchrunFlags::given() const {
  for (const TorchrunFlag& flag : kFlags) {
    const std::string name = absl::StrCat("--", flag.name);
    if (app_->count(name) > 0) return name;
  }
  return "";
}

std::vector<std::string> TorchrunFlags::Unneeded(bool lines_shown) const {
  std::vector<std::pair<std::string, std::vector<std::string>>> flags_by_reason;
  for (const TorchrunFlag& flag : kFlags) {
    const bool used = flag.use == Use::kUsed || (flag.use == Use::kShown && lines_shown);
    if (used || app_->count(absl::StrCat("--", flag.name)) == 0) continue;
    const char* reason = flag.use == Use::kShown ? kLogs : flag.text;
    if (flags_by_reason.empty() || flags_by_reason.back().first != reason)
      flags_by_reason.push_back({reason, {}});
    flags_by_reason.back().second.push_back(absl::StrCat("--", flag.name));
  }
  std::vector<std::string> lines;
  for (const auto& [reason, flags] : flags_by_reason)
    lines.push_back(
        absl::StrCat(absl::StrJoin(flags, ", "),
                     flags.size() == 1 ? " is not needed: " : " are not needed: ", reason));
  return lines;
}

}  // namespace dp::ctl
