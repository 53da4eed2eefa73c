#include "proto/job/job_check.h"

#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/dependency.h"
#include "base/labels.h"
#include "base/limits.h"
#include "base/name.h"
#include "base/node_range.h"
#include "proto/convert/time.h"
#include "proto/job/field_check.h"
#include "proto/job/job_spec.h"
#include "proto/job/train_check.h"
#include "proto/job/value_check.h"

namespace dp {
namespace {

// The longest part of a value in an error.
constexpr size_t kShownBytesMax = 80;

// Checks one job.
class JobCheck : private FieldCheck {
 public:
  JobCheck(const v1::JobSpec& spec, const FieldOrigins& origins,
           const FormOfSamples& form_of_samples)
      : FieldCheck(origins), spec_(spec), origins_(origins), form_of_samples_(form_of_samples) {}

  absl::Status Run() {
    CheckValues();
    CheckTop();
    CheckScheduling();
    for (const auto& [name, value] : SortedEnv()) CheckVariable(name, value);
    CheckSecretNames();
    switch (spec_.program_case()) {
      case v1::JobSpec::kTrain:
        Take(CheckTrainSection(spec_, origins_, form_of_samples_));
        break;
      case v1::JobSpec::kCommand:
        CheckCommand(spec_.command());
        break;
      case v1::JobSpec::PROGRAM_NOT_SET:
        Fail("train", "there is neither train nor command; a job needs a program to run");
    }
    CheckShape();
    CheckGrowth();
    CheckRestart(spec_.restart());
    return first();
  }

 private:
  void CheckValues() {
    const std::optional<UnusableValue> wrong = FindUnusable(spec_);
    if (wrong) Fail(wrong->path, absl::StrCat(wrong->path, " ", wrong->why));
  }

  void CheckTop() {
    OneOf("apiVersion", spec_.api_version(), {"dp/v1"});
    OneOf("kind", spec_.kind(), {"Job"});
    if (spec_.name().empty()) Fail("name", "name is missing; give the job one");
    if (!IsName(spec_.name())) Fail("name", Wrong("name", Quoted(spec_.name()), kNameRule));
    Between("ranks", spec_.ranks(), 1, kRanksMax);
    Between("threadsPerRank", spec_.threads_per_rank(), spec_.has_command() ? 0 : 1,
            kThreadsPerRankMax);
    Between("memoryMibPerRank", spec_.memory_mib_per_rank(), 0, kMemoryMibPerRankMax);
    const absl::Duration grace = FromProto(spec_.grace());
    if (grace < absl::ZeroDuration() || grace > kGraceMax)
      Fail("grace", Wrong("grace", grace, absl::StrCat("0s to ", absl::FormatDuration(kGraceMax))));
    const absl::Duration detect = FromProto(spec_.detect_within());
    if (detect < kDetectWithinMin || detect > kDetectWithinMax)
      Fail("detectWithin", Wrong("detectWithin", detect,
                                 absl::StrCat(absl::FormatDuration(kDetectWithinMin), " to ",
                                              absl::FormatDuration(kDetectWithinMax))));
  }

  void CheckScheduling() {
    if (!IsName(spec_.queue())) Fail("queue", Wrong("queue", Quoted(spec_.queue()), kNameRule));
    Between("priority", spec_.priority(), -kPriorityMax, kPriorityMax);
    OneOf("slots", spec_.slots(), {"any", "gpu", "cpu"});
    if (spec_.has_max_duration()) {
      CheckDuration("maxDuration", spec_.max_duration(), kMaxDurationMin);
    }
    CheckDuration("ttlAfterFinish", spec_.ttl_after_finish(), absl::ZeroDuration());
    CheckLength("after", spec_.after_size(), kDependenciesMax);
    CheckLength("constraints", spec_.constraints_size(), kLabelsMax);
    for (int i = 0; i < spec_.after_size(); ++i)
      CheckEntry("after", i, ParseDependency(spec_.after(i)).status());
    for (int i = 0; i < spec_.constraints_size(); ++i)
      CheckEntry("constraints", i, ParseConstraint(spec_.constraints(i)).status());
  }

  void CheckDuration(const std::string& path, const google::protobuf::Duration& value,
                     absl::Duration min) {
    const absl::Duration duration = FromProto(value);
    if (duration >= min && duration <= kMaxDurationMax) return;
    Fail(path, Wrong(path, duration,
                     absl::StrCat(absl::FormatDuration(min), " to ",
                                  absl::FormatDuration(kMaxDurationMax))));
  }

  void CheckLength(const std::string& list, size_t entries, size_t max) {
    if (entries > max)
      Fail(list, absl::StrCat(list, " has ", entries, " entries; at most ", max, " are allowed"));
  }

  void CheckEntry(const std::string& list, int index, const absl::Status& status) {
    const std::string path = absl::StrCat(list, "[", index, "]");
    if (!status.ok()) Fail(path, absl::StrCat(path, " ", status.message()));
  }

  // Protobuf's maps have no order; errors must have one.
  std::map<std::string, std::string> SortedEnv() const {
    return {spec_.env().begin(), spec_.env().end()};
  }

  void CheckVariable(const std::string& name, const std::string& value) {
    const std::string path = absl::StrCat("env.", name);
    if (!IsVariableName(name))
      Fail(path,
           absl::StrCat("env has a variable \"", absl::CEscape(name.substr(0, kShownBytesMax)),
                        "\"; a name consists of ", kVariableNameRule));
    if (value.find('\0') != std::string::npos)
      Fail(path, absl::StrCat("env.", name, " has a zero byte; a variable cannot"));
    const size_t bytes = name.size() + 1 + value.size();
    if (bytes > kArgumentBytesMax)
      Fail(path, absl::StrCat("env.", name.substr(0, kShownBytesMax), " takes ", bytes,
                              " bytes with its name; a variable may take ", kArgumentBytesMax,
                              ", so put it in a file and give its path"));
    if (absl::StartsWith(name, kReservedVariables))
      Fail(path, absl::StrCat("env.", name, " is set by dp itself; choose a name without ",
                              kReservedVariables));
  }

  // The values come beside the spec (secret_check.h).
  void CheckSecretNames() {
    CheckLength("secrets", spec_.secrets_size(), kSecretsMax);
    std::set<std::string> names;
    for (int i = 0; i < spec_.secrets_size(); ++i) {
      const std::string& name = spec_.secrets(i);
      const std::string path = absl::StrCat("secrets[", i, "]");
      const std::string shown = absl::CEscape(name.substr(0, kShownBytesMax));
      if (name.find('=') != std::string::npos)
        Fail(path, absl::StrCat(path,
                                " says more than a name; dpctl reads the value and sends it "
                                "beside the job, never in it"));
      else if (!IsVariableName(name) || name.size() > kSecretNameBytesMax)
        Fail(path, absl::StrCat(path, " is \"", shown, "\"; a name has up to ", kSecretNameBytesMax,
                                " bytes and consists of ", kVariableNameRule));
      if (absl::StartsWith(name, kReservedVariables))
        Fail(path,
             absl::StrCat(path, " is ", shown, ", which dp sets itself; choose a name without ",
                          kReservedVariables));
      if (spec_.env().contains(name))
        Fail(path, absl::StrCat(path, " is ", shown,
                                ", which env sets too; leave it out of one of them"));
      if (!names.insert(name).second)
        Fail(path, absl::StrCat(path, " is ", shown, ", which was named before; leave one out"));
    }
  }

  void CheckRestart(const v1::RestartSpec& restart) {
    Between("restart.maxRestarts", restart.max_restarts(), 0, kRestartsMax);
    Between("restart.infra", restart.infra(), 0, kRestartsMax);
    Between("restart.hang", restart.hang(), 0, kRestartsMax);
    Between("restart.oom", restart.oom(), 0, kRestartsMax);
    Between("restart.startup", restart.startup(), 0, kStartupRestartsMax);
    const absl::Duration window = FromProto(restart.window());
    if (window <= absl::ZeroDuration() || window > kRestartWindowMax)
      Fail("restart.window",
           Wrong("restart.window", window,
                 absl::StrCat("more than 0s, at most ", absl::FormatDuration(kRestartWindowMax))));
    CheckExitCodes("restart.neverRetryExitCodes", restart.never_retry_exit_codes());
    CheckExitCodes("restart.alwaysRetryExitCodes", restart.always_retry_exit_codes());
    if (spec_.has_command() && spec_.command().max_restarts() != restart.max_restarts())
      Fail("restart.maxRestarts",
           absl::StrCat("restart.maxRestarts is ", restart.max_restarts(),
                        ", but command.maxRestarts is ", spec_.command().max_restarts(),
                        "; they are the same, so give one of them"));
  }

  template <typename Codes>
  void CheckExitCodes(const std::string& path, const Codes& codes) {
    if (codes.size() > kExitCodesMax)
      Fail(path, absl::StrCat(path, " has ", codes.size(), " exit codes; there are only 255"));
    for (int i = 0; i < codes.size(); ++i)
      Between(absl::StrCat(path, "[", i, "]"), codes[i], 1, kExitCodeMax);
  }

  void CheckCommand(const v1::CommandSpec& command) {
    if (!command.argv().empty() && command.argv(0).empty())
      Fail("command.argv", "the program's name, command.argv[0], is empty; give a program to run");
    if (command.argv().empty())
      Fail("command.argv", "command.argv is missing; give the program and its arguments");
    for (int i = 0; i < command.argv_size(); ++i)
      if (command.argv(i).find('\0') != std::string::npos)
        Fail("command.argv",
             absl::StrCat("command.argv[", i, "] has a zero byte; an argument cannot"));
      else if (command.argv(i).size() > kArgumentBytesMax)
        Fail("command.argv", absl::StrCat("command.argv[", i, "] takes ", command.argv(i).size(),
                                          " bytes; an argument may take ", kArgumentBytesMax,
                                          ", so put it in a file and give its path"));
    Absolute("command.workingDir", command.working_dir());
    OneOf("command.contract", command.contract(),
          {"torchrun", "launch", "tensorflow", "jax", "mpi", "plain"});
    OneOf("command.store", command.store(), {"relay", "rank0", "direct", "program"});
    OneOf("command.onIsolation", command.on_isolation(), {"stop", "continue"});
    Between("command.maxRestarts", command.max_restarts(), 0, kRestartsMax);
  }

  // Checks workers, and ranks per worker.
  void CheckShape() {
    const std::string section = spec_.has_train() ? "train" : "command";
    const std::string nodes_path = section + ".nodes", each_path = section + ".nprocPerNode";
    const std::string& each = RanksPerNodeField(spec_);
    if (NodesField(spec_).empty() && each.empty()) return;
    const absl::Status nodes = ParseNodeRange(NodesField(spec_)).status();
    if (!nodes.ok()) Fail(nodes_path, absl::StrCat(nodes_path, " ", nodes.message()));
    if (each == "gpu" || each == "cpu" || each == "auto") {
      if (Given("ranks"))
        Fail("ranks",
             absl::StrCat("ranks is ", spec_.ranks(), ", but ", each_path, " is ", each,
                          ", which sets the ranks by the workers; leave ranks out, or give ",
                          each_path, " a number"));
      return;
    }
    int number = 0;
    if (!absl::SimpleAtoi(each, &number) || number < 1 || number > kRanksMax)
      Fail(each_path,
           Wrong(each_path, Quoted(each), absl::StrCat("1 to ", kRanksMax, ", gpu, cpu or auto")));
    const auto ranks = RanksOf(spec_);
    if (ranks && ranks->max > kRanksMax)
      Fail(nodes_path, absl::StrCat(nodes_path, " and ", each_path, " make up to ", ranks->max,
                                    " ranks; a job may have ", kRanksMax));
    if (ranks && ranks->min != spec_.ranks())
      Fail("ranks", absl::StrCat("ranks is ", spec_.ranks(), ", but ", nodes_path, " and ",
                                 each_path, " make ", ranks->min, "; leave ranks out"));
  }

  void CheckGrowth() {
    const absl::Duration after = FromProto(spec_.grow_after());
    if (after == absl::ZeroDuration()) return;
    CheckDuration("growAfter", spec_.grow_after(), kMaxDurationMin);
    if (!IsElastic(spec_))
      Fail("growAfter",
           "growAfter is given, but the job is not elastic; give nodes a range, as 1:4");
    if (spec_.has_train() && !spec_.train().has_checkpoint())
      Fail("growAfter",
           "growAfter is given, but the training would begin anew; give it train.checkpoint");
  }

  const v1::JobSpec& spec_;
  const FieldOrigins& origins_;
  const FormOfSamples& form_of_samples_;
};

}  // namespace

absl::Status CheckJob(const v1::JobSpec& spec, const FieldOrigins& origins,
                      const FormOfSamples& form_of_samples) {
  return JobCheck(spec, origins, form_of_samples).Run();
}

}  // namespace dp
