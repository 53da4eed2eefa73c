#include "server/rpc/job_spec_check.h"

#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/dependency.h"
#include "base/labels.h"
#include "base/limits.h"
#include "base/no_memory_limit.h"
#include "base/node_range.h"
#include "base/status.h"
#include "base/takes_secrets.h"
#include "base/timeouts.h"
#include "proto/convert/time.h"
#include "proto/job/job_check.h"
#include "proto/job/job_defaults.h"
#include "proto/job/job_spec.h"
#include "proto/job/trainer_level.h"

namespace dp::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// A job that came in a message: its fields have no places. A field with its zero is not given.
class SentFields final : public FieldOrigins {
 public:
  explicit SentFields(const v1::JobSpec& spec) : spec_(spec) {}

  bool Given(const std::string& path) const override {
    const Message* message = &spec_;
    bool given = false;
    for (const absl::string_view part : absl::StrSplit(path, '.')) {
      const size_t name = part.find('[');
      const FieldDescriptor* const field =
          message->GetDescriptor()->FindFieldByCamelcaseName(std::string(part.substr(0, name)));
      DP_CHECK(field != nullptr);
      const auto& reflection = *message->GetReflection();
      if (field->is_repeated()) {
        int index = 0;
        DP_CHECK(absl::SimpleAtoi(part.substr(name + 1, part.size() - name - 2), &index));
        given = index < reflection.FieldSize(*message, field);
        if (given) message = &reflection.GetRepeatedMessage(*message, field, index);
      } else {
        given = reflection.HasField(*message, field);
        const bool holds_more = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
        if (given && holds_more) message = &reflection.GetMessage(*message, field);
      }
      if (!given) return false;
    }
    return given;
  }

  absl::Status Error(const std::string&, absl::string_view what) const override {
    return absl::InvalidArgumentError(what);
  }

 private:
  const v1::JobSpec& spec_;
};

absl::Status CheckSize(size_t bytes) {
  if (bytes <= kSpecBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the job takes ", bytes, " bytes; at most ", kSpecBytesMax, " are allowed"));
}

// dpctl replaces what a job file may leave open: it counts GPUs, and fills in its own directory.
absl::Status CheckResolved(const v1::JobSpec& spec) {
  const std::string& each = RanksPerNodeField(spec);
  int number = 0;
  if (!each.empty() && !absl::SimpleAtoi(each, &number)) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.has_train() ? "train" : "command", ".nprocPerNode is \"", each,
                     "\"; expected a number, as dpctl puts in its place"));
  }
  if (spec.has_command() && spec.command().working_dir().empty()) {
    return absl::InvalidArgumentError(
        "command.workingDir is missing; give an absolute path on the workers' hosts");
  }
  return absl::OkStatus();
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

core::SlotKind SlotsOf(const v1::JobSpec& spec) {
  if (spec.train().device() == "cuda") return core::SlotKind::kTrainingGpu;
  if (spec.slots() == "gpu") return core::SlotKind::kGpu;
  if (spec.slots() == "cpu") return core::SlotKind::kCpu;
  return core::SlotKind::kAny;
}

core::Scheduling SchedulingOf(const v1::JobSpec& spec) {
  core::Scheduling scheduling{.queue = spec.queue(),
                              .priority = spec.priority(),
                              .hold = spec.hold(),
                              .singleton = spec.singleton(),
                              .slots = SlotsOf(spec),
                              .preemptible = spec.preemptible()};
  const absl::Duration grow_after = FromProto(spec.grow_after());
  if (grow_after > absl::ZeroDuration()) scheduling.grow_after = grow_after;
  if (spec.has_max_duration()) scheduling.max_duration = FromProto(spec.max_duration());
  if (spec.has_ttl_after_finish()) scheduling.ttl_after_finish = FromProto(spec.ttl_after_finish());
  for (const std::string& text : spec.after()) scheduling.after.push_back(*ParseDependency(text));
  for (const std::string& text : spec.constraints()) {
    scheduling.constraints.push_back(*ParseConstraint(text));
  }
  if (spec.memory_mib_per_rank() > 0) {
    scheduling.constraints.push_back({LabelConstraint::How::kAbsent, kNoMemoryLimit, ""});
  }
  if (!spec.secrets().empty()) {
    scheduling.constraints.push_back({LabelConstraint::How::kPresent, kTakesSecrets, ""});
  }
  if (const int level = TrainerLevelFor(spec.train()); level > 0) {
    scheduling.constraints.push_back(
        {LabelConstraint::How::kPresent, TrainerLevelLabel(level), ""});
  }
  return scheduling;
}

// How the workers share the ranks. Leaves it to the placement if the job does.
void SetShape(const v1::JobSpec& spec, core::JobSpec& checked) {
  checked.ranks = spec.ranks();
  const std::string& nodes = NodesField(spec);
  if (nodes.empty()) return;
  const NodeRange range = *ParseNodeRange(nodes);
  checked.nodes = range.min;
  checked.nodes_max = range.max > range.min ? range.max : 0;
}

core::JobSpec Of(const v1::JobSpec& spec) {
  core::JobSpec checked{.name = spec.name(),
                        .payload = spec.SerializeAsString(),
                        .restart = LimitsOf(spec.restart()),
                        .scheduling = SchedulingOf(spec),
                        .grace = FromProto(spec.grace()),
                        .detect_within = FromProto(spec.detect_within())};
  SetShape(spec, checked);
  if (spec.has_command()) {
    checked.store_port = MeetsAtStore(spec.command()) && spec.command().store() != "program";
    checked.joins_by_running = true;
  } else {
    checked.saves = spec.train().has_checkpoint();
    checked.gpu_training = spec.train().device() != "cpu" && !BindsCpusOnly(spec.train());
    checked.join_within = TimeoutsFor(checked.detect_within, {}).join;
  }
  return checked;
}

}  // namespace

absl::StatusOr<core::JobSpec> CheckJobSpec(const v1::JobSpec& sent) {
  DP_RETURN_IF_ERROR(CheckSize(sent.ByteSizeLong()));
  const SentFields origins(sent);
  v1::JobSpec spec = sent;
  FillDefaults(origins, spec);
  const auto data_elsewhere = [](const v1::DataSpec&) { return std::nullopt; };
  DP_RETURN_IF_ERROR(CheckJob(spec, origins, data_elsewhere));
  DP_RETURN_IF_ERROR(CheckResolved(spec));
  core::JobSpec checked = Of(spec);
  DP_RETURN_IF_ERROR(CheckSize(checked.payload.size()));
  return checked;
}

}  // namespace dp::server
