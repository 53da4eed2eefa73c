#include "server/rpc/scheduling_check.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/name.h"
#include "base/no_memory_limit.h"
#include "base/status.h"
#include "proto/convert/elastic.h"
#include "server/convert/convert_values.h"
#include "server/core/job_registry.h"

namespace dp::server {
namespace {

absl::Status Named(absl::string_view field, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(field, " ", status.message()));
}

absl::Status CheckCount(absl::string_view field, size_t count, size_t max) {
  if (count <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " has ", count, " entries; at most ", max, " are allowed"));
}

absl::StatusOr<core::SlotKind> ToKind(const std::string& slots) {
  if (slots == "any") return core::SlotKind::kAny;
  if (slots == "gpu") return core::SlotKind::kGpu;
  if (slots == "cpu") return core::SlotKind::kCpu;
  return absl::InvalidArgumentError(
      absl::StrCat("slots is \"", slots, "\"; it must be one of any, gpu, cpu"));
}

absl::Status CheckDurations(const v1::JobSpec& spec) {
  const absl::Duration max = FromProto(spec.max_duration()),
                       ttl = FromProto(spec.ttl_after_finish());
  if (spec.has_max_duration() && (max < kMaxDurationMin || max > kMaxDurationMax)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "maxDuration is ", absl::FormatDuration(max), "; it must be from ",
        absl::FormatDuration(kMaxDurationMin), " to ", absl::FormatDuration(kMaxDurationMax)));
  }
  if (ttl < absl::ZeroDuration() || ttl > kMaxDurationMax) {
    return absl::InvalidArgumentError(absl::StrCat("ttlAfterFinish is ", absl::FormatDuration(ttl),
                                                   "; it must be from 0s to ",
                                                   absl::FormatDuration(kMaxDurationMax)));
  }
  return absl::OkStatus();
}

// Infinite: the job never grows.
absl::StatusOr<absl::Duration> GrowAfter(const v1::JobSpec& spec) {
  const absl::Duration after = FromProto(spec.grow_after());
  if (after == absl::ZeroDuration()) return absl::InfiniteDuration();
  const auto wrong = [&](const absl::AlphaNum& rule) {
    return absl::InvalidArgumentError(
        absl::StrCat("growAfter is ", absl::FormatDuration(after), "; ", rule));
  };
  if (after < kMaxDurationMin || after > kMaxDurationMax) {
    return wrong(absl::StrCat("it must be 0s, or from ", absl::FormatDuration(kMaxDurationMin),
                              " to ", absl::FormatDuration(kMaxDurationMax)));
  }
  if (!IsElastic(spec)) return wrong("only an elastic job grows: give nodes a range, as 1:4");
  if (spec.has_train() && !spec.train().has_checkpoint()) {
    return wrong("the training would begin anew: give it train.checkpoint");
  }
  return after;
}

}  // namespace

absl::StatusOr<core::Scheduling> CheckScheduling(const v1::JobSpec& spec) {
  if (!IsName(spec.queue())) {
    return absl::InvalidArgumentError(
        absl::StrCat("queue is \"", spec.queue(), "\"; it must be ", kNameRule));
  }
  DP_RETURN_IF_ERROR(core::CheckPriority(spec.priority()));
  DP_RETURN_IF_ERROR(CheckDurations(spec));
  DP_RETURN_IF_ERROR(CheckCount("after", spec.after_size(), kDependenciesMax));
  DP_RETURN_IF_ERROR(CheckCount("constraints", spec.constraints_size(), kLabelsMax));
  core::Scheduling scheduling{.queue = spec.queue(),
                              .priority = spec.priority(),
                              .hold = spec.hold(),
                              .singleton = spec.singleton(),
                              .preemptible = spec.preemptible()};
  DP_ASSIGN_OR_RETURN(scheduling.slots, ToKind(spec.slots()));
  if (spec.train().device() == "cuda") {
    if (scheduling.slots == core::SlotKind::kCpu) {
      return absl::InvalidArgumentError("slots is \"cpu\"; train.device cuda needs GPUs");
    }
    scheduling.slots = core::SlotKind::kTrainingGpu;
  }
  DP_ASSIGN_OR_RETURN(scheduling.grow_after, GrowAfter(spec));
  if (spec.has_max_duration()) scheduling.max_duration = FromProto(spec.max_duration());
  if (spec.has_ttl_after_finish()) scheduling.ttl_after_finish = FromProto(spec.ttl_after_finish());
  for (const std::string& text : spec.after()) {
    absl::StatusOr<Dependency> dependency = ParseDependency(text);
    if (!dependency.ok()) return Named("after", dependency.status());
    scheduling.after.push_back(*dependency);
  }
  for (const std::string& text : spec.constraints()) {
    absl::StatusOr<LabelConstraint> constraint = ParseConstraint(text);
    if (!constraint.ok()) return Named("constraints", constraint.status());
    scheduling.constraints.push_back(*std::move(constraint));
  }
  if (spec.memory_mib_per_rank() > 0) {
    scheduling.constraints.push_back({LabelConstraint::How::kAbsent, kNoMemoryLimit, ""});
  }
  return scheduling;
}

}  // namespace dp::server
