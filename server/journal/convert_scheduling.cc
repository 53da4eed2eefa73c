#include "server/journal/convert_scheduling.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/convert/convert_values.h"

namespace dp::server {
namespace {

using Proto = journal::Scheduling;

Proto::Slots SlotsOf(core::SlotKind kind) {
  switch (kind) {
    case core::SlotKind::kAny:
      return Proto::SLOTS_ANY;
    case core::SlotKind::kGpu:
      return Proto::SLOTS_GPU;
    case core::SlotKind::kCpu:
      return Proto::SLOTS_CPU;
    case core::SlotKind::kTrainingGpu:
      return Proto::SLOTS_TRAINING_GPU;
  }
  return Proto::SLOTS_ANY;
}

absl::StatusOr<core::SlotKind> KindOf(Proto::Slots slots) {
  switch (slots) {
    case Proto::SLOTS_ANY:
      return core::SlotKind::kAny;
    case Proto::SLOTS_GPU:
      return core::SlotKind::kGpu;
    case Proto::SLOTS_CPU:
      return core::SlotKind::kCpu;
    case Proto::SLOTS_TRAINING_GPU:
      return core::SlotKind::kTrainingGpu;
    default:
      return absl::DataLossError("a job takes slots of a kind that this release does not know");
  }
}

}  // namespace

Proto ToProto(const core::Scheduling& scheduling) {
  Proto proto;
  proto.set_queue(scheduling.queue);
  proto.set_priority(scheduling.priority);
  proto.set_hold(scheduling.hold);
  for (const Dependency& dependency : scheduling.after) {
    journal::Dependency* added = proto.add_after();
    added->set_job(dependency.job.value());
    added->set_must_succeed(dependency.must_succeed);
  }
  proto.set_singleton(scheduling.singleton);
  if (scheduling.max_duration < absl::InfiniteDuration()) {
    *proto.mutable_max_duration() = dp::ToProto(scheduling.max_duration);
  }
  if (scheduling.ttl_after_finish < absl::InfiniteDuration()) {
    *proto.mutable_ttl_after_finish() = dp::ToProto(scheduling.ttl_after_finish);
  }
  proto.set_slots(SlotsOf(scheduling.slots));
  for (const LabelConstraint& constraint : scheduling.constraints) {
    proto.add_constraints(dp::ToString(constraint));
  }
  proto.set_preemptible(scheduling.preemptible);
  if (scheduling.grow_after < absl::InfiniteDuration()) {
    *proto.mutable_grow_after() = dp::ToProto(scheduling.grow_after);
  }
  return proto;
}

absl::StatusOr<core::Scheduling> FromProto(const Proto& proto) {
  core::Scheduling scheduling{.queue = proto.queue(),
                              .priority = proto.priority(),
                              .hold = proto.hold(),
                              .singleton = proto.singleton(),
                              .preemptible = proto.preemptible()};
  for (const journal::Dependency& dependency : proto.after()) {
    scheduling.after.push_back({JobId(dependency.job()), dependency.must_succeed()});
  }
  if (proto.has_max_duration()) scheduling.max_duration = dp::FromProto(proto.max_duration());
  if (proto.has_grow_after()) scheduling.grow_after = dp::FromProto(proto.grow_after());
  if (proto.has_ttl_after_finish()) {
    scheduling.ttl_after_finish = dp::FromProto(proto.ttl_after_finish());
  }
  absl::StatusOr<core::SlotKind> slots = KindOf(proto.slots());
  if (!slots.ok()) return slots.status();
  scheduling.slots = *slots;
  for (const std::string& text : proto.constraints()) {
    absl::StatusOr<LabelConstraint> constraint = ParseConstraint(text);
    if (!constraint.ok()) {
      return absl::DataLossError(absl::StrCat("a constraint ", constraint.status().message()));
    }
    scheduling.constraints.push_back(*std::move(constraint));
  }
  return scheduling;
}

}  // namespace dp::server
