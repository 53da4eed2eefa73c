#include <optional>
#include <utility>

#include "base/check.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
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

// Each struct is written through structured bindings, so that a new member of the state does not
// compile here. The member also belongs into journal_snapshot.proto, into the Save and the Load of
// its struct, and into the state's digest (AddTo).

template <typename Message>
void SaveTime(const std::optional<absl::Time>& time, Timestamp* (Message::*field)(), Message* of) {
  if (time.has_value()) *(of->*field)() = ToProto(*time);
}

void Save(const core::RankKey& key, journal::RankKey* proto) {
  const auto& [job, generation, rank] = key;
  proto->set_job(job.value());
  proto->set_generation(generation.value());
  proto->set_rank(rank);
}

void Save(const core::Drain& drain, journal::SavedDrain* proto) {
  const auto& [reason, hand_over, at] = drain;
  proto->set_reason(reason);
  proto->set_hand_over(hand_over);
  *proto->mutable_at() = ToProto(at);
}

void Save(const core::Worker& worker, journal::SavedWorker* proto) {
  const auto& [id, name, host, address, incarnation, state, leaving, slots, ports, gpus,
               trains_on_gpus, labels, interface, process_tracking, unhealthy, slot_report, drain,
               lost_at, lost_reason] = worker;
  proto->set_id(id.value());
  proto->set_name(name);
  proto->set_host(host);
  proto->set_address(address);
  proto->set_incarnation(incarnation.value());
  proto->set_lost(state == core::WorkerState::kLost);
  proto->set_leaving(leaving);
  for (const std::optional<core::RankKey>& holder : slots) {
    journal::SavedSlot* slot = proto->add_slots();
    if (holder.has_value()) Save(*holder, slot->mutable_holder());
  }
  proto->mutable_ports()->Add(ports.begin(), ports.end());
  proto->set_gpus(gpus);
  proto->set_trains_on_gpus(trains_on_gpus);
  proto->mutable_labels()->insert(labels.begin(), labels.end());
  proto->set_interface(interface);
  proto->set_process_tracking(process_tracking);
  proto->set_slot_report(slot_report);
  for (const auto& [slot, reason] : unhealthy) {
    journal::UnhealthySlot* saved = proto->add_unhealthy();
    saved->set_slot(slot);
    saved->set_reason(reason);
  }
  if (drain.has_value()) Save(*drain, proto->mutable_drain());
  SaveTime(lost_at, &journal::SavedWorker::mutable_lost_at, proto);
  proto->set_lost_reason(lost_reason);
}

void Save(const core::Rank& rank, journal::SavedRank* proto) {
  const auto& [state, worker_id, worker, host, address, slot, local_rank, port, pid, exit] = rank;
  proto->set_state(ToProto(state));
  proto->set_worker_id(worker_id.value());
  proto->set_worker(worker);
  proto->set_host(host);
  proto->set_address(address);
  proto->set_slot(slot);
  proto->set_local_rank(local_rank);
  proto->set_port(port);
  proto->set_pid(pid);
  if (exit.has_value()) *proto->mutable_exit() = ToProto(*exit);
}

void Save(const core::Rendezvous& world, journal::SavedWorld* proto) {
  proto->set_state(ToProto(world.state()));
  proto->set_size(world.size());
  proto->mutable_members()->Add(world.members().begin(), world.members().end());
  proto->set_closing_reason(world.closing_reason());
}

void Save(const core::Suspicion& suspicion, journal::SavedSuspicion* proto) {
  const auto& [spoken, suspects, error] = suspicion;
  proto->mutable_spoken()->Add(spoken.begin(), spoken.end());
  proto->mutable_suspects()->Add(suspects.begin(), suspects.end());
  proto->set_error(error);
}

void Save(const core::Failure& failure, journal::SavedFailure* proto) {
  const auto& [failure_class, rank, worker, host, exit, message, last_lines, at, generation,
               running_at, preempted_by, before_first_step] = failure;
  proto->set_failure_class(ToProto(failure_class));
  if (rank.has_value()) proto->set_rank(*rank);
  proto->set_worker(worker);
  proto->set_host(host);
  if (exit.has_value()) *proto->mutable_exit() = ToProto(*exit);
  proto->set_message(message);
  for (const std::string& line : last_lines) proto->add_last_lines(line);
  *proto->mutable_at() = ToProto(at);
  proto->set_generation(generation.value());
  SaveTime(running_at, &journal::SavedFailure::mutable_running_at, proto);
  proto->set_preempted_by(preempted_by.value());
  proto->set_before_first_step(before_first_step);
}

void Save(const core::Handover& handover, journal::SavedJob* proto) {
  const auto& [reason, cause, preempted_by, leave_by, names_checkpoint] = handover;
  proto->set_handover(reason);
  // Older releases knew only this kind.
  const bool plain = cause == core::HandoverCause::kMove && !preempted_by.valid() &&
                     leave_by == absl::InfiniteFuture() && !names_checkpoint;
  if (plain) return;
  journal::SavedHandover* asked = proto->mutable_asked();
  asked->set_cause(ToProto(cause));
  asked->set_preempted_by(preempted_by.value());
  if (leave_by < absl::InfiniteFuture()) *asked->mutable_leave_by() = ToProto(leave_by);
  asked->set_names_checkpoint(names_checkpoint);
}

void Save(const core::PastFailure& past, journal::SavedPastFailure* proto) {
  const auto& [failure, counted_as] = past;
  Save(failure, proto->mutable_failure());
  if (counted_as.has_value()) proto->set_counted_as(ToProto(*counted_as));
}

void Save(core::FailureClass failure_class, const std::deque<absl::Time>& at,
          journal::SavedRestarts* proto) {
  proto->set_failure_class(ToProto(failure_class));
  for (const absl::Time time : at) *proto->add_at() = ToProto(time);
}

void Save(const core::Checkpoint& checkpoint, journal::SavedCheckpoint* proto) {
  const auto& [step, generation, path, sha256, bytes, at] = checkpoint;
  proto->set_step(step);
  proto->set_generation(generation.value());
  proto->set_path(path);
  proto->set_sha256(sha256);
  proto->set_bytes(bytes);
  *proto->mutable_at() = ToProto(at);
}

void Save(const core::Weights& weights, journal::SavedWeights* proto) {
  const auto& [path, sha256, bytes] = weights;
  proto->set_path(path);
  proto->set_sha256(sha256);
  proto->set_bytes(bytes);
}

void Save(const core::AwaitedJob& awaited, journal::SavedAwaitedJob* proto) {
  const auto& [on, state] = awaited;
  const auto& [job, must_succeed] = on;
  proto->mutable_on()->set_job(job.value());
  proto->mutable_on()->set_must_succeed(must_succeed);
  proto->set_state(ToJournal(state));
}

void Save(const core::Event& event, journal::SavedEvent* proto) {
  const auto& [number, at, job, worker, kind, text] = event;
  proto->set_number(number);
  *proto->mutable_at() = ToProto(at);
  proto->set_job(job.value());
  proto->set_worker(worker);
  proto->set_kind(kind);
  proto->set_text(text);
}

void Save(const core::Job& job, journal::SavedJob* proto) {
  const auto& [id, request_id, user, spec, state, version, generation, ranks, store_port, on_gpus,
               tells_first_step, first_step_at, world, suspicion, checkpoints, weights, handover,
               failure, past, restarts, restart_count, not_before, no_retry, not_restarted,
               priority, held, queued, after, time_left, deadline, submitted_at, placed_at,
               running_at, finished_at] = job;
  proto->set_id(id.value());
  *proto->mutable_submit() = ToRecord({submitted_at, core::SubmitJob{request_id, spec, user}});
  proto->set_state(ToProto(state));
  proto->set_version(version.value());
  proto->set_generation(generation.value());
  for (const core::Rank& rank : ranks) Save(rank, proto->add_ranks());
  proto->set_store_port(store_port);
  proto->set_on_gpus(on_gpus);
  proto->set_tells_first_step(tells_first_step);
  SaveTime(first_step_at, &journal::SavedJob::mutable_first_step_at, proto);
  Save(world, proto->mutable_world());
  Save(suspicion, proto->mutable_suspicion());
  for (const core::Checkpoint& one : checkpoints.all()) Save(one, proto->add_checkpoints());
  if (weights.has_value()) Save(*weights, proto->mutable_weights());
  if (handover.has_value()) Save(*handover, proto);
  if (failure.has_value()) Save(*failure, proto->mutable_failure());
  for (const core::PastFailure& one : past) Save(one, proto->add_past());
  for (const auto& [failure_class, at] : restarts) Save(failure_class, at, proto->add_restarts());
  proto->set_restart_count(restart_count);
  if (not_before != absl::InfinitePast()) *proto->mutable_not_before() = ToProto(not_before);
  proto->set_no_retry(no_retry);
  proto->set_not_restarted(not_restarted);
  proto->set_priority(priority);
  proto->set_held(held);
  proto->set_queued(queued.value());
  for (const core::AwaitedJob& one : after) Save(one, proto->add_after());
  if (time_left < absl::InfiniteDuration()) *proto->mutable_time_left() = ToProto(time_left);
  SaveTime(deadline, &journal::SavedJob::mutable_deadline, proto);
  SaveTime(placed_at, &journal::SavedJob::mutable_placed_at, proto);
  SaveTime(running_at, &journal::SavedJob::mutable_running_at, proto);
  SaveTime(finished_at, &journal::SavedJob::mutable_finished_at, proto);
}

void Save(int port, const core::StorePorts::Use& use, journal::SavedPort* proto) {
  const auto& [holder, free_since] = use;
  proto->set_port(port);
  proto->set_holder(holder.value());
  if (!holder.valid()) *proto->mutable_free_since() = ToProto(free_since);
}

void Save(const core::GroupResults& answer, journal::SavedClient* proto) {
  const auto& [results, refused] = answer;
  ResultsToProto(results, proto->mutable_results());
  for (const auto& [group, status] : refused) {
    v1::RefusedGroup* saved = proto->add_refused();
    saved->set_group(group);
    saved->set_code(static_cast<int>(status.code()));
    saved->set_message(std::string(status.message()));
  }
}

// Fills one piece after the other.
class Pieces {
 public:
  explicit Pieces(size_t piece_bytes) : piece_bytes_(piece_bytes) {}

  // The current piece; a new one once it is full.
  journal::Snapshot* operator->() { return &piece_; }
  // Reports that `message`, in the current piece, is complete.
  template <typename Message>
  void Added(const Message& message) {
    bytes_ += message.ByteSizeLong();
    if (bytes_ >= piece_bytes_) End();
  }
  std::vector<std::string> Finish() {
    if (pieces_.empty() || piece_.ByteSizeLong() > 0) End();
    return std::move(pieces_);
  }

 private:
  void End() {
    // Labels are a map, whose order differs from message to message without this option.
    google::protobuf::io::StringOutputStream stream(&pieces_.emplace_back());
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    DP_CHECK(piece_.SerializeToCodedStream(&out));
    piece_.Clear();
    bytes_ = 0;
  }

  const size_t piece_bytes_;
  journal::Snapshot piece_;
  size_t bytes_ = 0;
  std::vector<std::string> pieces_;
};

void Save(JobId job, const core::GenerationStore& store, Pieces& pieces) {
  const KeyValues& values = store.values();
  journal::SavedStore* head = pieces->add_stores();
  head->set_job(job.value());
  head->set_revision(values.revision());
  head->set_deletion(values.deletion());
  for (const auto& [key, entry] : values.entries()) {
    const auto& [value, version] = entry;
    journal::SavedKey* saved = pieces->add_store_keys();
    saved->set_job(job.value());
    saved->set_key(key);
    saved->set_value(value);
    saved->set_version(version);
    pieces.Added(*saved);
  }
  for (const auto& [name, elements] : values.queues()) {
    journal::SavedQueue* saved = pieces->add_store_queues();
    saved->set_job(job.value());
    saved->set_name(name);
    for (const std::string& element : elements) saved->add_elements(element);
    pieces.Added(*saved);
  }
  for (const auto& [client, last] : store.clients()) {
    const auto& [sequence, answer] = last;
    journal::SavedClient* saved = pieces->add_store_clients();
    saved->set_job(job.value());
    saved->set_client(client);
    saved->set_sequence(sequence);
    Save(answer, saved);
    pieces.Added(*saved);
  }
}

}  // namespace

journal::SavedVersion::Kind ToJournal(core::Topic::Kind kind) {
  switch (kind) {
    case core::Topic::Kind::kJobList:
      return journal::SavedVersion::KIND_JOB_LIST;
    case core::Topic::Kind::kWorld:
      return journal::SavedVersion::KIND_WORLD;
    case core::Topic::Kind::kAssignment:
      return journal::SavedVersion::KIND_ASSIGNMENT;
    case core::Topic::Kind::kWorkers:
      return journal::SavedVersion::KIND_WORKERS;
    case core::Topic::Kind::kEvents:
      return journal::SavedVersion::KIND_EVENTS;
    case core::Topic::Kind::kJob:
    case core::Topic::Kind::kStoreKey:
    case core::Topic::Kind::kStoreElement:
    case core::Topic::Kind::kStoreTaken:
    case core::Topic::Kind::kWorldState:
    case core::Topic::Kind::kLogs:
      break;
  }
  return journal::SavedVersion::KIND_UNSPECIFIED;
}

journal::SavedAwaitedJob::State ToJournal(core::AwaitedJob::State state) {
  switch (state) {
    case core::AwaitedJob::State::kUnfinished:
      return journal::SavedAwaitedJob::STATE_UNFINISHED;
    case core::AwaitedJob::State::kDone:
      return journal::SavedAwaitedJob::STATE_DONE;
    case core::AwaitedJob::State::kInVain:
      break;
  }
  return journal::SavedAwaitedJob::STATE_IN_VAIN;
}

std::vector<std::string> ToPieces(const core::State& state, size_t piece_bytes) {
  const auto& [epoch, revision, at, workers, jobs, store_ports, events, store_limits, kept_answers,
               stores, versions] = state;
  Pieces pieces(piece_bytes);
  pieces->set_epoch(epoch.value());
  pieces->set_revision(revision.value());
  *pieces->mutable_at() = ToProto(at);
  *pieces->mutable_store_limits() =
      ToRecord({absl::UnixEpoch(), core::StartEpoch{store_limits, kept_answers}}).start_epoch();
  pieces->set_last_worker(workers.last_id());
  pieces->set_last_job(jobs.last_id());
  pieces->set_last_event(events.last());
  for (const core::Worker* worker : workers.workers()) {
    journal::SavedWorker* saved = pieces->add_workers();
    Save(*worker, saved);
    pieces.Added(*saved);
  }
  for (const Incarnation life : workers.lost_lives()) pieces->add_lost_lives(life.value());
  for (const core::Job* job : jobs.jobs()) {
    journal::SavedJob* saved = pieces->add_jobs();
    Save(*job, saved);
    pieces.Added(*saved);
  }
  for (const JobId job : jobs.finished()) pieces->add_finished_jobs(job.value());
  for (const auto& [port, use] : store_ports.uses()) Save(port, use, pieces->add_store_ports());
  for (const auto& [number, event] : events.events()) {
    journal::SavedEvent* saved = pieces->add_events();
    Save(event, saved);
    pieces.Added(*saved);
  }
  for (const auto& [job, store] : stores) Save(job, store, pieces);
  for (const auto& [topic, version] : versions) {
    const auto& [kind, id, key] = topic;
    DP_CHECK(ToJournal(kind) != 0 && key.empty());
    journal::SavedVersion* saved = pieces->add_versions();
    saved->set_kind(ToJournal(kind));
    saved->set_id(id);
    saved->set_version(version.value());
    pieces.Added(*saved);
  }
  return pieces.Finish();
}

}  // namespace dp::server
