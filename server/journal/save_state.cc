#include <utility>

#include "base/check.h"
#include "google/protobuf/arena.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/convert/store_operations.h"
#include "server/convert/convert_call.h"
#include "server/journal/convert_state.h"
#include "server/journal/own_forms.h"

namespace dp::server {
namespace {

void SavePort(int port, const core::StorePorts::Use& use, journal::SavedPort* proto) {
  const auto& [holder, free_since] = use;
  proto->set_port(port);
  proto->set_holder(holder.value());
  if (!holder.valid()) *proto->mutable_free_since() = ToProto(free_since);
}

void SaveAnswer(const core::GroupResults& answer, journal::SavedClient* proto) {
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
  journal::Snapshot* operator->() { return piece_; }
  // Reports that `message`, in the current piece, is complete.
  template <typename Message>
  void Added(const Message& message) {
    bytes_ += message.ByteSizeLong();
    if (bytes_ >= piece_bytes_) End();
  }
  std::vector<std::string> Finish() {
    if (pieces_.empty() || piece_->ByteSizeLong() > 0) End();
    return std::move(pieces_);
  }

 private:
  journal::Snapshot* New() { return journal::Snapshot::default_instance().New(&arena_); }
  void End() {
    // Labels are a map, whose order differs from message to message without this option.
    google::protobuf::io::StringOutputStream stream(&pieces_.emplace_back());
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    DP_CHECK(piece_->SerializeToCodedStream(&out));
    arena_.Reset();
    piece_ = New();
    bytes_ = 0;
  }

  const size_t piece_bytes_;
  google::protobuf::Arena arena_;  // holds the current piece: much faster than the heap
  journal::Snapshot* piece_ = New();
  size_t bytes_ = 0;
  std::vector<std::string> pieces_;
};

void SaveStore(JobId job, const core::GenerationStore& store, Pieces& pieces) {
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
    SaveAnswer(answer, saved);
    pieces.Added(*saved);
  }
}

void SaveHolders(const std::map<std::string, core::Holder>& holders, bool workers, Pieces& pieces) {
  for (const auto& [name, holder] : holders) {
    journal::SavedHolder* saved = pieces->add_holders();
    saved->set_name(name);
    saved->set_worker(workers);
    Save(holder, saved);
    pieces.Added(*saved);
  }
}

void SaveAccess(const core::AccessList& access, Pieces& pieces) {
  SaveHolders(access.contents().people, /*workers=*/false, pieces);
  SaveHolders(access.contents().workers, /*workers=*/true, pieces);
  for (const auto& [id, token] : access.contents().tokens) {
    journal::SavedToken* saved = pieces->add_tokens();
    saved->set_id(id);
    Save(token, saved);
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
    case core::Topic::Kind::kAccess:
      return journal::SavedVersion::KIND_ACCESS;
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

std::vector<std::string> ToPieces(const core::State& state, size_t piece_bytes) {
  const auto& [epoch, revision, at, workers, jobs, store_ports, events, store_limits, kept_answers,
               stores, access, versions] = state;
  Pieces pieces(piece_bytes);
  pieces->set_epoch(epoch.value());
  pieces->set_revision(revision.value());
  *pieces->mutable_at() = ToProto(at);
  Save(core::StartEpoch{store_limits, kept_answers}, pieces->mutable_store_limits());
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
  for (const auto& [port, use] : store_ports.uses()) SavePort(port, use, pieces->add_store_ports());
  for (const auto& [number, event] : events.events()) {
    journal::SavedEvent* saved = pieces->add_events();
    Save(event, saved);
    pieces.Added(*saved);
  }
  for (const auto& [job, store] : stores) SaveStore(job, store, pieces);
  SaveAccess(access, pieces);
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
