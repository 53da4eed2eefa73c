#include "server/journal/own_forms.h"

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/convert/store_operations.h"
#include "server/convert/convert_call.h"
#include "server/convert/convert_world.h"
#include "server/journal/command_versions.h"

namespace dp::server {

void OwnForm<Exit>::Save(const Exit& exit, v1::Exit* proto) { *proto = ToProto(exit); }

absl::Status OwnForm<Exit>::Load(const v1::Exit& proto, Exit* exit) {
  *exit = FromProto(proto);
  return absl::OkStatus();
}

void OwnForm<core::StartEpoch>::Save(const core::StartEpoch& start, journal::StartEpoch* proto) {
  server::Save(start.store_limits, proto);
  proto->set_kept_answers_bounded(start.kept_answers == core::KeptAnswers::kBounded);
}

absl::Status OwnForm<core::StartEpoch>::Load(const journal::StartEpoch& proto,
                                             core::StartEpoch* start) {
  start->store_limits = KeyValueLimits::None();  // as in journals of releases without limits
  start->kept_answers =
      proto.kept_answers_bounded() ? core::KeptAnswers::kBounded : core::KeptAnswers::kWhole;
  return server::Load(proto, &start->store_limits);
}

void OwnForm<core::SubmitJob>::Save(const core::SubmitJob& submit, journal::SubmitJob* proto) {
  server::Save(submit.spec, proto);
}

absl::Status OwnForm<core::SubmitJob>::Load(const journal::SubmitJob& proto,
                                            core::SubmitJob* submit) {
  return server::Load(proto, &submit->spec);
}

void OwnForm<core::JobSpec>::Save(const core::JobSpec& spec, journal::SubmitJob* proto) {
  if (spec.grace != core::JobSpec().grace) *proto->mutable_grace() = ToProto(spec.grace);
  server::Save(spec.scheduling, proto->mutable_scheduling());
}

absl::Status OwnForm<core::JobSpec>::Load(const journal::SubmitJob& proto, core::JobSpec* spec) {
  if (proto.has_grace()) spec->grace = FromProto(proto.grace());
  if (!proto.has_scheduling()) return absl::OkStatus();
  return server::Load(proto.scheduling(), &spec->scheduling);
}

void OwnForm<core::Scheduling>::Save(const core::Scheduling& scheduling,
                                     journal::Scheduling* proto) {
  for (const LabelConstraint& constraint : scheduling.constraints) {
    proto->add_constraints(ToString(constraint));
  }
}

absl::Status OwnForm<core::Scheduling>::Load(const journal::Scheduling& proto,
                                             core::Scheduling* scheduling) {
  for (const std::string& text : proto.constraints()) {
    absl::StatusOr<LabelConstraint> constraint = ParseConstraint(text);
    if (!constraint.ok()) {
      return absl::DataLossError(absl::StrCat("a constraint ", constraint.status().message()));
    }
    scheduling->constraints.push_back(*std::move(constraint));
  }
  return absl::OkStatus();
}

void OwnForm<core::StoreBatch>::Save(const core::StoreBatch& batch, journal::StoreBatch* proto) {
  OperationsToProto(batch.operations, proto->mutable_operations());
}

absl::Status OwnForm<core::StoreBatch>::Load(const journal::StoreBatch& proto,
                                             core::StoreBatch* batch) {
  DP_ASSIGN_OR_RETURN(batch->operations, OperationsFromProto(proto.operations()));
  return absl::OkStatus();
}

void OwnForm<core::Worker>::Save(const core::Worker& worker, journal::SavedWorker* proto) {
  proto->set_lost(worker.state == core::WorkerState::kLost);
}

absl::Status OwnForm<core::Worker>::Load(const journal::SavedWorker& proto, core::Worker* worker) {
  worker->state = proto.lost() ? core::WorkerState::kLost : core::WorkerState::kReady;
  return absl::OkStatus();
}

namespace {

// A Rendezvous shows its members only by its answers.
struct WorldFields {
  core::WorldState state = core::WorldState::kForming;
  int size = 0;
  std::set<int> members;
  std::string closing_reason;

  using Fields = FieldList<&WorldFields::state, &WorldFields::size, &WorldFields::members,
                           &WorldFields::closing_reason>;
};

}  // namespace

void OwnForm<core::Rendezvous>::Save(const core::Rendezvous& world, journal::SavedWorld* proto) {
  server::Save(WorldFields{world.state(), world.size(), world.members(), world.closing_reason()},
               proto);
}

absl::Status OwnForm<core::Rendezvous>::Load(const journal::SavedWorld& proto,
                                             core::Rendezvous* world) {
  WorldFields fields;
  DP_RETURN_IF_ERROR(server::Load(proto, &fields));
  *world = core::Rendezvous(fields.state, fields.size, std::move(fields.members),
                            std::move(fields.closing_reason));
  return absl::OkStatus();
}

void OwnForm<core::Job>::Save(const core::Job& job, journal::SavedJob* proto) {
  *proto->mutable_submit()->mutable_at() = ToProto(job.submitted_at);
  journal::SubmitJob* const submit = proto->mutable_submit()->mutable_submit_job();
  server::Save(core::SubmitJob{job.request_id, job.spec, job.user, job.owner, job.secrets}, submit);
  for (const core::Checkpoint& one : job.checkpoints.all()) {
    server::Save(one, proto->add_checkpoints());
  }
  if (const core::Checkpoint* best = job.checkpoints.best()) {
    server::Save(*best, proto->mutable_best_checkpoint());
  }
  if (!job.handover.has_value()) return;
  proto->set_handover(job.handover->reason);
  // Format 2 had only handovers with a reason and nothing else.
  const core::Handover plain{.reason = job.handover->reason};
  if (*job.handover != plain) server::Save(*job.handover, proto->mutable_asked());
}

absl::Status OwnForm<core::Job>::Load(const journal::SavedJob& proto, core::Job* job) {
  const journal::SubmitJob& submit = proto.submit().submit_job();
  DP_RETURN_IF_ERROR(CheckVersion(proto.submit()));
  if (!proto.submit().has_submit_job()) {
    return absl::DataLossError("a job was not made by a submission");
  }
  job->submitted_at = FromProto(proto.submit().at());
  core::SubmitJob submitted;
  DP_RETURN_IF_ERROR(server::Load(submit, &submitted));
  auto& [request_id, spec, user, owner, secrets] = submitted;
  job->request_id = std::move(request_id);
  job->spec = std::move(spec);
  job->user = std::move(user);
  job->owner = std::move(owner);
  job->secrets = std::move(secrets);
  std::vector<core::Checkpoint> checkpoints(static_cast<size_t>(proto.checkpoints_size()));
  for (int i = 0; i < proto.checkpoints_size(); ++i) {
    DP_RETURN_IF_ERROR(server::Load(proto.checkpoints(i), &checkpoints[static_cast<size_t>(i)]));
  }
  std::optional<core::Checkpoint> best;
  if (proto.has_best_checkpoint()) {
    DP_RETURN_IF_ERROR(server::Load(proto.best_checkpoint(), &best.emplace()));
  }
  job->checkpoints = core::Checkpoints::Of(std::move(checkpoints), std::move(best));
  if (proto.handover().empty()) return absl::OkStatus();
  job->handover = core::Handover{.reason = proto.handover()};
  return server::Load(proto.asked(), &*job->handover);
}

}  // namespace dp::server
