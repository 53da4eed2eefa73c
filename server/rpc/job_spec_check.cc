#include "server/rpc/job_spec_check.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/limits.h"
#include "base/name.h"
#include "base/node_range.h"
#include "base/status.h"
#include "base/timeouts.h"
#include "proto/convert/elastic.h"
#include "proto/convert/restart_defaults.h"
#include "proto/convert/store_defaults.h"
#include "server/convert/convert_values.h"
#include "server/rpc/scheduling_check.h"

namespace dp::server {
namespace {

absl::Status Invalid(absl::string_view field, const absl::AlphaNum& value,
                     const absl::AlphaNum& allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value.Piece().empty() ? "\"\"" : value.Piece(), "; ", allowed));
}

absl::Status CheckRange(absl::string_view field, double value, double min, double max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return Invalid(field, value,
                 std::isfinite(max) ? absl::StrCat("it must be from ", min, " to ", max)
                                    : absl::StrCat("it must be a number from ", min, " up"));
}

absl::Status CheckRange(absl::string_view field, absl::Duration value, absl::Duration min,
                        absl::Duration max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return Invalid(field, absl::FormatDuration(value),
                 absl::StrCat("it must be from ", absl::FormatDuration(min), " to ",
                              absl::FormatDuration(max)));
}

absl::Status CheckName(const std::string& name) {
  if (IsName(name)) return absl::OkStatus();
  return Invalid("name", absl::StrCat("\"", name, "\""), absl::StrCat("it must be ", kNameRule));
}

absl::Status CheckHead(const v1::JobSpec& spec) {
  if (spec.api_version() != "dp/v1") {
    return Invalid("apiVersion", spec.api_version(), "this coordinator knows \"dp/v1\"");
  }
  if (spec.kind() != "Job") return Invalid("kind", spec.kind(), "it must be \"Job\"");
  DP_RETURN_IF_ERROR(CheckName(spec.name()));
  for (const auto& [name, value] : spec.env()) {
    const bool good = !name.empty() && name.find('=') == name.npos && name.find('\0') == name.npos;
    if (!good) return Invalid("env", absl::StrCat("\"", name, "\""), "it is no variable's name");
    const size_t bytes = name.size() + 1 + value.size();
    if (bytes > kArgumentBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat("a variable of env takes ", bytes,
                                                     " bytes with its name; at most ",
                                                     kArgumentBytesMax, " are allowed"));
    }
    if (absl::StartsWith(name, kReservedVariables)) {
      return Invalid(absl::StrCat("env.", name), absl::StrCat("\"", value, "\""),
                     absl::StrCat("dp sets it itself; choose a name without ", kReservedVariables));
    }
    if (value.find('\0') != value.npos) {
      return Invalid(absl::StrCat("env.", name), "text with a zero byte", "that ends it early");
    }
  }
  return absl::OkStatus();
}

// Users do not choose a rank's working directory, which is its daemon's, so paths must be absolute.
absl::Status CheckPath(absl::string_view field, const std::string& path) {
  if (path.empty() || path.front() == '/') return absl::OkStatus();
  return Invalid(field, absl::StrCat("\"", path, "\""),
                 "it must be an absolute path on the workers' hosts");
}

absl::Status CheckCheckpoint(const v1::CheckpointSpec& checkpoint) {
  if (checkpoint.dir().empty()) {
    return Invalid("train.checkpoint.dir", "", "it must name a directory");
  }
  DP_RETURN_IF_ERROR(CheckPath("train.checkpoint.dir", checkpoint.dir()));
  DP_RETURN_IF_ERROR(CheckRange("train.checkpoint.everySteps",
                                static_cast<double>(checkpoint.every_steps()), 0, HUGE_VAL));
  if ((checkpoint.every_steps() > 0) == checkpoint.has_every()) {
    return Invalid("train.checkpoint", checkpoint.has_every() ? "given both" : "given neither",
                   "it must have either everySteps or every");
  }
  if (checkpoint.has_every()) {
    DP_RETURN_IF_ERROR(CheckRange("train.checkpoint.every", FromProto(checkpoint.every()),
                                  kCheckpointEveryMin, kCheckpointEveryMax));
  }
  return CheckRange("train.checkpoint.keep", checkpoint.keep(), 1, kCheckpointsKeptMax);
}

absl::Status CheckOneOf(absl::string_view field, const std::string& value,
                        const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return absl::OkStatus();
  return Invalid(field, value, absl::StrCat("it must be one of ", absl::StrJoin(allowed, ", ")));
}

template <typename Codes>
absl::Status CheckExitCodes(absl::string_view field, const Codes& codes) {
  DP_RETURN_IF_ERROR(
      CheckRange(absl::StrCat("the length of ", field), codes.size(), 0, kExitCodesMax));
  for (const int code : codes) DP_RETURN_IF_ERROR(CheckRange(field, code, 1, kExitCodeMax));
  return absl::OkStatus();
}

absl::Status CheckRestart(const v1::JobSpec& spec) {
  const v1::RestartSpec& restart = spec.restart();
  DP_RETURN_IF_ERROR(CheckRange("restart.maxRestarts", restart.max_restarts(), 0, kRestartsMax));
  DP_RETURN_IF_ERROR(CheckRange("restart.infra", restart.infra(), 0, kRestartsMax));
  DP_RETURN_IF_ERROR(CheckRange("restart.hang", restart.hang(), 0, kRestartsMax));
  DP_RETURN_IF_ERROR(CheckRange("restart.oom", restart.oom(), 0, kRestartsMax));
  DP_RETURN_IF_ERROR(CheckRange("restart.startup", restart.startup(), 0, kStartupRestartsMax));
  DP_RETURN_IF_ERROR(CheckRange("restart.window", FromProto(restart.window()), absl::Nanoseconds(1),
                                kRestartWindowMax));
  DP_RETURN_IF_ERROR(
      CheckExitCodes("restart.neverRetryExitCodes", restart.never_retry_exit_codes()));
  DP_RETURN_IF_ERROR(
      CheckExitCodes("restart.alwaysRetryExitCodes", restart.always_retry_exit_codes()));
  if (!spec.has_command() || spec.command().max_restarts() == restart.max_restarts()) {
    return absl::OkStatus();
  }
  return Invalid(
      "restart.maxRestarts", restart.max_restarts(),
      absl::StrCat("command.maxRestarts, which is the same, is ", spec.command().max_restarts()));
}

core::RestartLimits LimitsOf(const v1::RestartSpec& restart) {
  core::RestartLimits limits{.user = restart.max_restarts(),
                             .infra = restart.infra(),
                             .hang = restart.hang(),
                             .oom = {},
                             .startup = restart.startup(),
                             .window = FromProto(restart.window()),
                             .never_exit_codes = {restart.never_retry_exit_codes().begin(),
                                                  restart.never_retry_exit_codes().end()},
                             .always_exit_codes = {restart.always_retry_exit_codes().begin(),
                                                   restart.always_retry_exit_codes().end()}};
  if (restart.has_oom()) limits.oom = restart.oom();
  return limits;
}

// Clients of earlier releases know only images, and leave the kind empty.
absl::Status CheckData(const v1::DataSpec& data) {
  if (data.kind().empty() || data.kind() == "images") {
    if (data.dir().empty()) return Invalid("train.data.dir", "", "it must name a directory");
    return CheckPath("train.data.dir", data.dir());
  }
  DP_RETURN_IF_ERROR(CheckOneOf("train.data.kind", data.kind(), {"images", "text", "tokens"}));
  if (data.train().empty()) return Invalid("train.data.train", "empty", "it must name files");
  for (const auto* files : {&data.train(), &data.test()}) {
    for (const std::string& file : *files) {
      if (file.empty()) return Invalid("a file of train.data", "", "it must be absolute");
      DP_RETURN_IF_ERROR(CheckPath("a file of train.data", file));
    }
  }
  DP_RETURN_IF_ERROR(CheckRange("train.data.context", data.context(), 1, kContextMax));
  return CheckRange("train.data.vocabulary", data.vocabulary(), 0, kVocabularyMax);
}

// Whether only GPUs compute in this precision.
bool OfGpus(const std::string& precision) { return precision == "bf16" || precision == "tf32"; }

absl::Status CheckTrain(const v1::TrainSpec& train) {
  const double infinity = HUGE_VAL;
  DP_RETURN_IF_ERROR(CheckRange("train.epochs", train.epochs(), 0, infinity));
  DP_RETURN_IF_ERROR(
      CheckRange("train.maxSteps", static_cast<double>(train.max_steps()), 0, infinity));
  DP_RETURN_IF_ERROR(CheckRange("train.globalBatchSize", train.global_batch_size(), 0, infinity));
  DP_RETURN_IF_ERROR(CheckRange("train.bucketCapMb", train.bucket_cap_mb(), 0, kBucketCapMbMax));
  DP_RETURN_IF_ERROR(CheckRange("train.evaluateEvery", train.evaluate_every(), 0, infinity));
  DP_RETURN_IF_ERROR(CheckData(train.data()));
  DP_RETURN_IF_ERROR(
      CheckOneOf("train.precision", train.precision(), {"", "float32", "tf32", "bf16"}));
  DP_RETURN_IF_ERROR(CheckOneOf("train.device", train.device(), {"auto", "cpu", "cuda"}));
  if (train.device() == "cpu" && OfGpus(train.precision())) {
    return Invalid("train.precision", train.precision(), "train.device cpu needs float32");
  }
  if (train.device() == "cuda" && train.backend() == "gloo") {
    return Invalid("train.backend", train.backend(), "train.device cuda needs auto");
  }
  DP_RETURN_IF_ERROR(CheckOneOf("train.onIsolation", train.on_isolation(), {"stop", "continue"}));
  DP_RETURN_IF_ERROR(CheckPath("train.output.weights", train.output().weights()));
  DP_RETURN_IF_ERROR(CheckPath("train.trace", train.trace()));
  if (train.has_checkpoint()) DP_RETURN_IF_ERROR(CheckCheckpoint(train.checkpoint()));
  for (const v1::ResumeFrom& from : train.resume().from()) {
    DP_RETURN_IF_ERROR(CheckPath("train.resume.from.path", from.path()));
    if (from.path().empty()) return Invalid("train.resume.from.path", "", "it must be absolute");
  }
  if (train.model().preset().empty() == train.model().layers().empty()) {
    return Invalid("train.model", train.model().layers().empty() ? "empty" : "given twice",
                   "it must have either preset or layers");
  }
  return absl::OkStatus();
}

absl::Status CheckCommand(const v1::CommandSpec& command) {
  if (command.argv().empty() || command.argv(0).empty()) {
    return Invalid("command.argv", "empty", "it must name a program");
  }
  for (const std::string& argument : command.argv()) {
    if (argument.size() > kArgumentBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat("an argument of command.argv takes ",
                                                     argument.size(), " bytes; at most ",
                                                     kArgumentBytesMax, " are allowed"));
    }
    if (argument.find('\0') == argument.npos) continue;
    return Invalid("command.argv", "text with a zero byte", "that ends an argument early");
  }
  const std::string& dir = command.working_dir();
  if (dir.empty() || dir.front() != '/' || dir.find('\0') != dir.npos) {
    return Invalid("command.workingDir", dir, "it must be an absolute path on the workers' hosts");
  }
  DP_RETURN_IF_ERROR(CheckOneOf("command.contract", command.contract(),
                                {"torchrun", "launch", "tensorflow", "jax", "mpi", "plain"}));
  DP_RETURN_IF_ERROR(
      CheckOneOf("command.store", command.store(), {"relay", "rank0", "direct", "program"}));
  DP_RETURN_IF_ERROR(
      CheckOneOf("command.onIsolation", command.on_isolation(), {"stop", "continue"}));
  return CheckRange("command.maxRestarts", command.max_restarts(), 0, kRestartsMax);
}

// Workers, and ranks on each; 0 workers if the job leaves the number to the placement.
struct Shape {
  int nodes = 0;
  int each = 1;
  int nodes_max = 0;
};

// The shape in `section`, which is train or command.
absl::StatusOr<Shape> ShapeOf(const v1::JobSpec& spec, absl::string_view section) {
  const std::string &nodes = NodesField(spec), &each = RanksPerNodeField(spec);
  if (nodes.empty() && each.empty()) return Shape{};
  Shape shape{.nodes = 1, .each = 1};
  if (!nodes.empty()) {
    const absl::StatusOr<NodeRange> range = ParseNodeRange(nodes);
    if (!range.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(section, ".nodes ", std::string(range.status().message())));
    }
    shape.nodes = range->min;
    shape.nodes_max = range->max;
  }
  const std::string each_field = absl::StrCat(section, ".nprocPerNode");
  if (!each.empty() && !absl::SimpleAtoi(each, &shape.each)) {
    return Invalid(each_field, each, "it must be a number; dpctl makes one of gpu, ...");
  }
  DP_RETURN_IF_ERROR(CheckRange(each_field, shape.each, 1, kRanksMax));
  return shape;
}

// Sets the ranks of the job in `spec`, and returns how its workers share them.
absl::StatusOr<core::JobSpec> Shaped(v1::JobSpec& spec) {
  const std::string section = spec.has_train() ? "train" : "command";
  DP_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(spec, section));
  const int64_t ranks = shape.nodes > 0 ? int64_t{shape.nodes} * shape.each : spec.ranks();
  const int64_t ranks_max = int64_t{shape.nodes_max} * shape.each;
  const std::string product = absl::StrCat(section, ".nodes times ", section, ".nprocPerNode");
  DP_RETURN_IF_ERROR(CheckRange("ranks", static_cast<double>(ranks), 1, kRanksMax));
  DP_RETURN_IF_ERROR(CheckRange(product, static_cast<double>(ranks_max), 0, kRanksMax));
  // A job that does not give its ranks has 1.
  if (spec.ranks() != 1 && spec.ranks() != ranks) {
    return Invalid("ranks", spec.ranks(), absl::StrCat(product, " is ", ranks, "; leave it out"));
  }
  spec.set_ranks(static_cast<int>(ranks));
  return core::JobSpec{.name = spec.name(),
                       .ranks = spec.ranks(),
                       .nodes = shape.nodes,
                       .nodes_max = shape.nodes_max > shape.nodes ? shape.nodes_max : 0};
}

absl::StatusOr<core::JobSpec> CheckedCommand(v1::JobSpec spec) {
  DP_RETURN_IF_ERROR(CheckCommand(spec.command()));
  DP_ASSIGN_OR_RETURN(core::JobSpec checked, Shaped(spec));
  checked.payload = spec.SerializeAsString();
  checked.store_port = MeetsAtStore(spec.command()) && spec.command().store() != "program";
  checked.joins_by_running = true;
  return checked;
}

absl::StatusOr<core::JobSpec> CheckedTrain(v1::JobSpec spec) {
  DP_RETURN_IF_ERROR(CheckTrain(spec.train()));
  DP_ASSIGN_OR_RETURN(core::JobSpec checked, Shaped(spec));
  const int batch = spec.train().global_batch_size();
  if (checked.nodes > 0 && batch > 0 && batch < checked.ranks_max()) {
    return Invalid(
        "train.globalBatchSize", batch,
        absl::StrCat("it must have a sample for each of ", checked.ranks_max(), " ranks"));
  }
  checked.payload = spec.SerializeAsString();
  checked.saves = spec.train().has_checkpoint();
  checked.gpu_training = spec.train().device() != "cpu" && spec.train().backend() != "gloo";
  return checked;
}

// Only a GPU computes in these precisions, so the placement must not choose the device.
void FillDevice(v1::TrainSpec& train) {
  if (train.device().empty()) train.set_device("auto");
  if (train.device() == "auto" && OfGpus(train.precision())) train.set_device("cuda");
}

// The defaults are recorded with the job, so that no later default changes what the job does.
v1::JobSpec WithDefaults(v1::JobSpec spec) {
  if (spec.api_version().empty()) spec.set_api_version("dp/v1");
  if (spec.kind().empty()) spec.set_kind("Job");
  if (spec.ranks() == 0) spec.set_ranks(1);
  if (spec.threads_per_rank() == 0 && !spec.has_command()) spec.set_threads_per_rank(1);
  if (spec.has_command()) {
    v1::CommandSpec& command = *spec.mutable_command();
    if (command.contract().empty()) command.set_contract("torchrun");
    if (command.store().empty()) command.set_store(DefaultStore(spec));
    if (command.on_isolation().empty()) command.set_on_isolation("stop");
  }
  if (spec.train().has_checkpoint() && spec.train().checkpoint().keep() == 0) {
    spec.mutable_train()->mutable_checkpoint()->set_keep(2);
  }
  if (spec.has_train() && spec.train().on_isolation().empty()) {
    spec.mutable_train()->set_on_isolation("continue");
  }
  if (spec.has_train()) FillDevice(*spec.mutable_train());
  FillRestart(spec);
  FillGrowAfter(spec);
  if (spec.queue().empty()) spec.set_queue("default");
  if (spec.slots().empty()) spec.set_slots("any");
  if (!spec.has_grace()) *spec.mutable_grace() = ToProto(kGraceDefault);
  if (!spec.has_detect_within()) *spec.mutable_detect_within() = ToProto(kDetectWithinDefault);
  return spec;
}

}  // namespace

absl::StatusOr<core::JobSpec> CheckJobSpec(const v1::JobSpec& given) {
  const v1::JobSpec spec = WithDefaults(given);
  DP_RETURN_IF_ERROR(CheckHead(spec));
  DP_RETURN_IF_ERROR(CheckRange("ranks", spec.ranks(), 1, kRanksMax));
  DP_RETURN_IF_ERROR(CheckRange("threadsPerRank", spec.threads_per_rank(),
                                spec.has_command() ? 0 : 1, kThreadsPerRankMax));
  DP_RETURN_IF_ERROR(
      CheckRange("memoryMibPerRank", spec.memory_mib_per_rank(), 0, kMemoryMibPerRankMax));
  DP_RETURN_IF_ERROR(CheckRange("grace", FromProto(spec.grace()), absl::ZeroDuration(), kGraceMax));
  DP_RETURN_IF_ERROR(CheckRange("detectWithin", FromProto(spec.detect_within()), kDetectWithinMin,
                                kDetectWithinMax));
  DP_RETURN_IF_ERROR(CheckRestart(spec));
  core::JobSpec checked;
  switch (spec.program_case()) {
    case v1::JobSpec::kTrain: {
      DP_ASSIGN_OR_RETURN(checked, CheckedTrain(spec));
      break;
    }
    case v1::JobSpec::kCommand: {
      DP_ASSIGN_OR_RETURN(checked, CheckedCommand(spec));
      break;
    }
    case v1::JobSpec::PROGRAM_NOT_SET:
      return absl::InvalidArgumentError(
          "the job has no program; give it a section `train` or `command`");
  }
  if (!checked.joins_by_running) {
    checked.join_within = TimeoutsFor(FromProto(spec.detect_within()), {}).join;
  }
  checked.detect_within = FromProto(spec.detect_within());
  checked.restart = LimitsOf(spec.restart());
  checked.grace = FromProto(spec.grace());
  DP_ASSIGN_OR_RETURN(checked.scheduling, CheckScheduling(spec));
  if (checked.payload.size() > kSpecBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("the job takes ", checked.payload.size(),
                                                   " bytes; at most ", kSpecBytesMax,
                                                   " are allowed"));
  }
  return checked;
}

}  // namespace dp::server
