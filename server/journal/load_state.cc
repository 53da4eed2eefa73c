#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/convert/store_operations.h"
#include "server/convert/convert_job.h"
#include "server/convert/convert_values.h"
#include "server/convert/convert_world.h"
#include "server/journal/convert_command.h"
#include "server/journal/convert_handover.h"
#include "server/journal/convert_state.h"

namespace dp::server {
namespace {

using google::protobuf::Timestamp;

template <typename Message>
std::optional<absl::Time> LoadTime(bool has, const Timestamp& (Message::*field)() const,
                                   const Message& of) {
  if (!has) return std::nullopt;
  return FromProto((of.*field)());
}

// Inverts a function from an enum of the core to one of a protobuf; nullopt if this release knows
// no such value.
template <typename Core, typename Proto>
std::optional<Core> Inverse(Proto (*function)(Core), Proto proto) {
  constexpr int kValuesMax = 64;
  for (int value = 0; proto != 0 && value < kValuesMax; ++value) {
    if (function(static_cast<Core>(value)) == proto) return static_cast<Core>(value);
  }
  return std::nullopt;
}

absl::Status Unknown(absl::string_view what, int value) {
  return absl::DataLossError(
      absl::StrCat(what, " ", value, " is none that this release knows; start a later one"));
}

core::RankKey Load(const journal::RankKey& proto) {
  return {JobId(proto.job()), Generation(proto.generation()), proto.rank()};
}

core::Worker Load(const journal::SavedWorker& proto) {
  core::Worker worker{
      .id = WorkerId(proto.id()),
      .name = proto.name(),
      .host = proto.host(),
      .address = proto.address(),
      .incarnation = Incarnation(proto.incarnation()),
      .state = proto.lost() ? core::WorkerState::kLost : core::WorkerState::kReady,
      .leaving = proto.leaving(),
      .slots = {},
      .ports = {proto.ports().begin(), proto.ports().end()},
      .gpus = proto.gpus(),
      .trains_on_gpus = proto.trains_on_gpus(),
      .labels = {proto.labels().begin(), proto.labels().end()},
      .interface = proto.interface(),
      .process_tracking = proto.process_tracking(),
      .slot_report = proto.slot_report(),
      .lost_at = LoadTime(proto.has_lost_at(), &journal::SavedWorker::lost_at, proto),
      .lost_reason = proto.lost_reason()};
  if (proto.has_drain()) {
    worker.drain = {proto.drain().reason(), proto.drain().hand_over(),
                    FromProto(proto.drain().at())};
  }
  for (const journal::UnhealthySlot& slot : proto.unhealthy()) {
    worker.unhealthy[slot.slot()] = slot.reason();
  }
  for (const journal::SavedSlot& slot : proto.slots()) {
    worker.slots.push_back(slot.has_holder() ? std::optional(Load(slot.holder())) : std::nullopt);
  }
  return worker;
}

absl::StatusOr<core::Rank> Load(const journal::SavedRank& proto) {
  const auto state = Inverse<core::RankState>(&ToProto, proto.state());
  if (!state.has_value()) return Unknown("rank state", proto.state());
  return core::Rank{
      .state = *state,
      .worker_id = WorkerId(proto.worker_id()),
      .worker = proto.worker(),
      .host = proto.host(),
      .address = proto.address(),
      .slot = proto.slot(),
      .local_rank = proto.local_rank(),
      .port = proto.port(),
      .pid = proto.pid(),
      .exit = proto.has_exit() ? std::optional(FromProto(proto.exit())) : std::nullopt};
}

absl::StatusOr<core::Rendezvous> Load(const journal::SavedWorld& proto) {
  const auto state = Inverse<core::WorldState>(&ToProto, proto.state());
  if (!state.has_value()) return Unknown("world state", proto.state());
  return core::Rendezvous(*state, proto.size(), {proto.members().begin(), proto.members().end()},
                          proto.closing_reason());
}

core::Suspicion Load(const journal::SavedSuspicion& proto) {
  return {.spoken = {proto.spoken().begin(), proto.spoken().end()},
          .suspects = {proto.suspects().begin(), proto.suspects().end()},
          .error = proto.error()};
}

absl::StatusOr<core::Failure> Load(const journal::SavedFailure& proto) {
  const auto failure_class = FromProto(proto.failure_class());
  if (!failure_class.has_value()) return Unknown("failure class", proto.failure_class());
  return core::Failure{
      .failure_class = *failure_class,
      .rank = proto.has_rank() ? std::optional<int>(proto.rank()) : std::nullopt,
      .worker = proto.worker(),
      .host = proto.host(),
      .exit = proto.has_exit() ? std::optional(FromProto(proto.exit())) : std::nullopt,
      .message = proto.message(),
      .last_lines = {proto.last_lines().begin(), proto.last_lines().end()},
      .at = FromProto(proto.at()),
      .generation = Generation(proto.generation()),
      .running_at = LoadTime(proto.has_running_at(), &journal::SavedFailure::running_at, proto),
      .preempted_by = JobId(proto.preempted_by()),
      .before_first_step = proto.before_first_step()};
}

absl::StatusOr<core::Handover> LoadHandover(const journal::SavedJob& proto) {
  const journal::SavedHandover& asked = proto.asked();
  core::Handover handover{.reason = proto.handover(), .preempted_by = JobId(asked.preempted_by())};
  DP_ASSIGN_OR_RETURN(handover.cause, FromProto(asked.cause()));
  if (asked.has_leave_by()) handover.leave_by = FromProto(asked.leave_by());
  handover.names_checkpoint = asked.names_checkpoint();
  return handover;
}

absl::Status LoadRestarts(const journal::SavedJob& proto, core::Job* job) {
  for (const journal::SavedPastFailure& saved : proto.past()) {
    DP_ASSIGN_OR_RETURN(core::Failure failure, Load(saved.failure()));
    const auto counted_as = FromProto(saved.counted_as());
    if (!counted_as.has_value() && saved.counted_as() != v1::FAILURE_CLASS_UNSPECIFIED) {
      return Unknown("failure class", saved.counted_as());
    }
    job->past.push_back({std::move(failure), counted_as});
  }
  for (const journal::SavedRestarts& saved : proto.restarts()) {
    const auto failure_class = FromProto(saved.failure_class());
    if (!failure_class.has_value()) return Unknown("failure class", saved.failure_class());
    for (const Timestamp& at : saved.at()) {
      job->restarts[*failure_class].push_back(FromProto(at));
    }
  }
  job->restart_count = proto.restart_count();
  if (proto.has_not_before()) job->not_before = FromProto(proto.not_before());
  job->no_retry = proto.no_retry();
  job->not_restarted = proto.not_restarted();
  return absl::OkStatus();
}

std::optional<core::AwaitedJob::State> FromJournal(journal::SavedAwaitedJob::State state) {
  using State = core::AwaitedJob::State;
  for (const State each : {State::kUnfinished, State::kDone, State::kInVain}) {
    if (ToJournal(each) == state) return each;
  }
  return std::nullopt;
}

absl::Status LoadTurn(const journal::SavedJob& proto, core::Job* job) {
  job->priority = proto.priority();
  job->held = proto.held();
  job->queued = Revision(proto.queued());
  for (const journal::SavedAwaitedJob& saved : proto.after()) {
    const auto state = FromJournal(saved.state());
    if (!state.has_value()) return Unknown("state of an awaited job", saved.state());
    job->after.push_back({{JobId(saved.on().job()), saved.on().must_succeed()}, *state});
  }
  job->time_left = proto.has_time_left() ? FromProto(proto.time_left()) : absl::InfiniteDuration();
  job->deadline = LoadTime(proto.has_deadline(), &journal::SavedJob::deadline, proto);
  return absl::OkStatus();
}

core::Event Load(const journal::SavedEvent& proto) {
  return {.number = proto.number(),
          .at = FromProto(proto.at()),
          .job = JobId(proto.job()),
          .worker = proto.worker(),
          .kind = proto.kind(),
          .text = proto.text()};
}

core::Checkpoint Load(const journal::SavedCheckpoint& proto) {
  return {.step = proto.step(),
          .generation = Generation(proto.generation()),
          .path = proto.path(),
          .sha256 = proto.sha256(),
          .bytes = proto.bytes(),
          .at = FromProto(proto.at())};
}

core::Weights Load(const journal::SavedWeights& proto) {
  return {.path = proto.path(), .sha256 = proto.sha256(), .bytes = proto.bytes()};
}

absl::StatusOr<core::Job> Load(const journal::SavedJob& proto) {
  DP_ASSIGN_OR_RETURN(core::Command submitted, FromRecord(proto.submit()));
  auto* submit = std::get_if<core::SubmitJob>(&submitted.action);
  if (submit == nullptr) return absl::DataLossError("a job was not made by a submission");
  const auto state = Inverse<core::JobState>(&ToProto, proto.state());
  if (!state.has_value()) return Unknown("job state", proto.state());
  core::Job job{.id = JobId(proto.id()),
                .request_id = std::move(submit->request_id),
                .user = std::move(submit->user),
                .spec = std::move(submit->spec),
                .state = *state,
                .version = Revision(proto.version()),
                .generation = Generation(proto.generation()),
                .ranks = {},
                .store_port = proto.store_port(),
                .on_gpus = proto.on_gpus()};
  for (const journal::SavedRank& saved : proto.ranks()) {
    DP_ASSIGN_OR_RETURN(core::Rank rank, Load(saved));
    job.ranks.push_back(std::move(rank));
  }
  DP_ASSIGN_OR_RETURN(job.world, Load(proto.world()));
  job.suspicion = Load(proto.suspicion());
  std::vector<core::Checkpoint> checkpoints;
  for (const journal::SavedCheckpoint& saved : proto.checkpoints()) {
    checkpoints.push_back(Load(saved));
  }
  job.checkpoints = core::Checkpoints::Of(std::move(checkpoints));
  if (proto.has_weights()) job.weights = Load(proto.weights());
  if (!proto.handover().empty()) {
    DP_ASSIGN_OR_RETURN(job.handover, LoadHandover(proto));
  }
  if (proto.has_failure()) {
    DP_ASSIGN_OR_RETURN(job.failure, Load(proto.failure()));
  }
  DP_RETURN_IF_ERROR(LoadRestarts(proto, &job));
  DP_RETURN_IF_ERROR(LoadTurn(proto, &job));
  job.submitted_at = submitted.at;
  job.tells_first_step = proto.tells_first_step();
  job.first_step_at = LoadTime(proto.has_first_step_at(), &journal::SavedJob::first_step_at, proto);
  job.placed_at = LoadTime(proto.has_placed_at(), &journal::SavedJob::placed_at, proto);
  job.running_at = LoadTime(proto.has_running_at(), &journal::SavedJob::running_at, proto);
  job.finished_at = LoadTime(proto.has_finished_at(), &journal::SavedJob::finished_at, proto);
  return job;
}

core::StorePorts::Use Load(const journal::SavedPort& proto) {
  if (proto.holder() != 0) return {.holder = JobId(proto.holder())};
  return {.holder = {}, .free_since = FromProto(proto.free_since())};
}

core::GroupResults LoadAnswer(journal::SavedClient& proto) {
  core::GroupResults answer{ResultsFromProto(std::move(*proto.mutable_results())), {}};
  for (const v1::RefusedGroup& saved : proto.refused()) {
    answer.refused.push_back(
        {saved.group(),
         absl::Status(static_cast<absl::StatusCode>(saved.code()), saved.message())});
  }
  return answer;
}

// Merges the pieces of a snapshot.
class LoadedState {
 public:
  absl::Status Add(journal::Snapshot& piece) {
    if (piece.has_store_limits()) AddNumbers(piece);  // only in the first piece
    for (const journal::SavedWorker& saved : piece.workers()) {
      workers_.workers.emplace(saved.id(), Load(saved));
    }
    for (const uint64_t life : piece.lost_lives()) workers_.lost_lives.emplace_back(life);
    for (const journal::SavedJob& saved : piece.jobs()) {
      DP_ASSIGN_OR_RETURN(core::Job job, Load(saved));
      jobs_.jobs.emplace_hint(jobs_.jobs.end(), job.id, std::move(job));
    }
    for (const uint64_t job : piece.finished_jobs()) jobs_.finished.emplace_back(job);
    for (const journal::SavedPort& saved : piece.store_ports()) {
      ports_.emplace(saved.port(), Load(saved));
    }
    for (const journal::SavedEvent& saved : piece.events()) {
      events_.events.emplace(saved.number(), Load(saved));
    }
    AddStores(piece);
    return AddVersions(piece);
  }

  core::State Finish() {
    state_.workers = core::WorkerTable(std::move(workers_));
    state_.jobs = core::JobRegistry(std::move(jobs_));
    state_.store_ports = core::StorePorts(std::move(ports_));
    state_.events = core::EventHistory(std::move(events_));
    for (auto& [job, values] : values_) {
      state_.stores.emplace(job,
                            core::GenerationStore({state_.store_limits, std::move(values)},
                                                  std::move(clients_[job]), state_.kept_answers));
    }
    return std::move(state_);
  }

 private:
  void AddNumbers(const journal::Snapshot& piece) {
    state_.epoch = Epoch(piece.epoch());
    state_.revision = Revision(piece.revision());
    state_.at = FromProto(piece.at());
    const journal::StartEpoch& limits = piece.store_limits();
    state_.store_limits = {limits.key_bytes(), limits.value_bytes(), limits.keys(),
                           limits.total_bytes()};
    state_.kept_answers = KeptAnswersOf(limits);
    workers_.last_id = piece.last_worker();
    jobs_.last_id = piece.last_job();
    events_.last = piece.last_event();
  }

  void AddStores(journal::Snapshot& piece) {
    for (const journal::SavedStore& saved : piece.stores()) {
      KeyValues::Contents& values = values_[JobId(saved.job())];
      values.revision = saved.revision();
      values.deletion = saved.deletion();
    }
    for (journal::SavedKey& saved : *piece.mutable_store_keys()) {
      KeyValues::Map& entries = values_[JobId(saved.job())].entries;
      entries.emplace_hint(entries.end(), std::move(*saved.mutable_key()),
                           KeyValues::Entry{std::move(*saved.mutable_value()), saved.version()});
    }
    for (const journal::SavedQueue& saved : piece.store_queues()) {
      values_[JobId(saved.job())].queues[saved.name()] = {saved.elements().begin(),
                                                          saved.elements().end()};
    }
    for (journal::SavedClient& saved : *piece.mutable_store_clients()) {
      clients_[JobId(saved.job())].emplace(
          saved.client(), core::GenerationStore::LastAnswer{saved.sequence(), LoadAnswer(saved)});
    }
  }

  absl::Status AddVersions(const journal::Snapshot& piece) {
    for (const journal::SavedVersion& saved : piece.versions()) {
      const auto kind = Inverse<core::Topic::Kind>(&ToJournal, saved.kind());
      if (!kind.has_value()) return Unknown("topic", saved.kind());
      state_.versions.emplace(core::Topic{*kind, saved.id()}, Revision(saved.version()));
    }
    return absl::OkStatus();
  }

  core::State state_;
  core::WorkerTable::Contents workers_;
  core::JobRegistry::Contents jobs_;
  std::map<int, core::StorePorts::Use> ports_;
  core::EventHistory::Contents events_;
  std::map<JobId, KeyValues::Contents> values_;
  std::map<JobId, core::GenerationStore::Clients> clients_;
};

}  // namespace

absl::StatusOr<core::State> FromPieces(absl::Span<const std::string> pieces) {
  LoadedState loaded;
  for (size_t i = 0; i < pieces.size(); ++i) {
    journal::Snapshot piece;
    if (!piece.ParseFromString(pieces[i])) {
      return absl::DataLossError(absl::StrCat("piece ", i + 1, " of the snapshot is damaged"));
    }
    DP_RETURN_IF_ERROR(loaded.Add(piece));
  }
  return loaded.Finish();
}

}  // namespace dp::server
