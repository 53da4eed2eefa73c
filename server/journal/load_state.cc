#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "google/protobuf/arena.h"
#include "proto/convert/store_operations.h"
#include "server/convert/convert_call.h"
#include "server/journal/convert_state.h"
#include "server/journal/own_forms.h"

namespace dp::server {
namespace {

// Nullopt if this release knows no such kind.
std::optional<core::Topic::Kind> FromJournal(journal::SavedVersion::Kind kind) {
  constexpr int kKindsMax = 64;
  for (int value = 0; kind != 0 && value < kKindsMax; ++value) {
    const auto candidate = static_cast<core::Topic::Kind>(value);
    if (ToJournal(candidate) == kind) return candidate;
  }
  return std::nullopt;
}

core::StorePorts::Use UseOf(const journal::SavedPort& proto) {
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
    if (piece.has_store_limits()) DP_RETURN_IF_ERROR(AddNumbers(piece));  // only in the first one
    for (const journal::SavedWorker& saved : piece.workers()) {
      DP_RETURN_IF_ERROR(Load(saved, &workers_.workers[WorkerId(saved.id())]));
    }
    for (const uint64_t life : piece.lost_lives()) workers_.lost_lives.emplace_back(life);
    for (const journal::SavedJob& saved : piece.jobs()) {
      const auto job = jobs_.jobs.try_emplace(jobs_.jobs.end(), JobId(saved.id()));
      DP_RETURN_IF_ERROR(Load(saved, &job->second));
    }
    for (const uint64_t job : piece.finished_jobs()) jobs_.finished.emplace_back(job);
    for (const journal::SavedPort& saved : piece.store_ports()) {
      ports_.emplace(saved.port(), UseOf(saved));
    }
    for (const journal::SavedEvent& saved : piece.events()) {
      DP_RETURN_IF_ERROR(Load(saved, &events_.events[saved.number()]));
    }
    DP_RETURN_IF_ERROR(AddAccess(piece));
    AddStores(piece);
    return AddVersions(piece);
  }

  core::State Finish() {
    state_.workers = core::WorkerTable(std::move(workers_));
    state_.jobs = core::JobRegistry(std::move(jobs_));
    state_.store_ports = core::StorePorts(std::move(ports_));
    state_.access = core::AccessList(std::move(access_));
    state_.events = core::EventHistory(std::move(events_));
    for (auto& [job, values] : values_) {
      state_.stores.emplace(job,
                            core::GenerationStore({state_.store_limits, std::move(values)},
                                                  std::move(clients_[job]), state_.kept_answers));
    }
    return std::move(state_);
  }

 private:
  absl::Status AddNumbers(const journal::Snapshot& piece) {
    state_.epoch = Epoch(piece.epoch());
    state_.revision = Revision(piece.revision());
    state_.at = FromProto(piece.at());
    core::StartEpoch start;
    DP_RETURN_IF_ERROR(Load(piece.store_limits(), &start));
    state_.store_limits = start.store_limits;
    state_.kept_answers = start.kept_answers;
    workers_.last_id = piece.last_worker();
    jobs_.last_id = piece.last_job();
    events_.last = piece.last_event();
    return absl::OkStatus();
  }

  absl::Status AddAccess(const journal::Snapshot& piece) {
    for (const journal::SavedHolder& saved : piece.holders()) {
      auto& holders = saved.worker() ? access_.workers : access_.people;
      DP_RETURN_IF_ERROR(Load(saved, &holders[saved.name()]));
    }
    for (const journal::SavedToken& saved : piece.tokens()) {
      DP_RETURN_IF_ERROR(Load(saved, &access_.tokens[saved.id()]));
    }
    return absl::OkStatus();
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
      const auto kind = FromJournal(saved.kind());
      if (!kind.has_value()) {
        return absl::DataLossError(absl::StrCat(
            "topic ", saved.kind(), " is none that this release knows; start a later one"));
      }
      state_.versions.emplace(core::Topic{*kind, saved.id()}, Revision(saved.version()));
    }
    return absl::OkStatus();
  }

  core::State state_;
  core::WorkerTable::Contents workers_;
  core::JobRegistry::Contents jobs_;
  std::map<int, core::StorePorts::Use> ports_;
  core::EventHistory::Contents events_;
  core::AccessList::Contents access_;
  std::map<JobId, KeyValues::Contents> values_;
  std::map<JobId, core::GenerationStore::Clients> clients_;
};

}  // namespace

absl::StatusOr<core::State> FromPieces(absl::Span<const std::string> pieces) {
  LoadedState loaded;
  for (size_t i = 0; i < pieces.size(); ++i) {
    google::protobuf::Arena arena;  // much faster than the heap
    auto& piece = *journal::Snapshot::default_instance().New(&arena);
    if (!piece.ParseFromString(pieces[i])) {
      return absl::DataLossError(absl::StrCat("piece ", i + 1, " of the snapshot is damaged"));
    }
    DP_RETURN_IF_ERROR(loaded.Add(piece));
  }
  return loaded.Finish();
}

}  // namespace dp::server
