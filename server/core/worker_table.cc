#include "server/core/worker_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/name.h"
#include "base/natural_order.h"
#include "base/status.h"

namespace dp::core {
namespace {

absl::Status CheckRequest(const RegisterWorker& request) {
  if (!request.incarnation.valid()) {
    return absl::InvalidArgumentError("incarnation is 0; draw one at random when a daemon starts");
  }
  if (request.slots < 1 || request.slots > kSlotsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("slots is ", request.slots, "; give a number from 1 to ", kSlotsMax));
  }
  if (!request.ports.empty() && request.ports.size() != static_cast<size_t>(request.slots)) {
    return absl::InvalidArgumentError(absl::StrCat(
        request.ports.size(), " ports for ", request.slots, " slots; give one for each, or none"));
  }
  const absl::string_view named = request.name.empty() ? "host" : "name";
  const std::string& name = request.name.empty() ? request.host : request.name;
  if (IsWorkerNameOnRecord(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(named, " '", name, "' is no worker name; use ", kWorkerNameRule));
}

std::vector<RankKey> TakeHolders(Worker& worker) {
  std::vector<RankKey> holders;
  for (std::optional<RankKey>& slot : worker.slots) {
    if (slot.has_value()) holders.push_back(*slot);
    slot.reset();
  }
  std::sort(holders.begin(), holders.end());
  return holders;
}

}  // namespace

absl::Status NameTaken(const Worker& worker) {
  return absl::AlreadyExistsError(absl::StrCat(
      "worker name ", worker.name, " is taken: the dp-worker on host ", worker.host, " at ",
      worker.address, " has it; give this one a --name of its own, or end that one first"));
}

WorkerTable::WorkerTable(Contents contents)
    : last_id_(contents.last_id),
      workers_(std::move(contents.workers)),
      lost_lives_(contents.lost_lives.begin(), contents.lost_lives.end()),
      lost_lives_in_order_(std::move(contents.lost_lives)) {
  for (const auto& [id, worker] : workers_) {
    by_name_.emplace(worker.name, id);
    if (worker.ready()) by_incarnation_.emplace(worker.incarnation, id);
  }
  // Does not compile if a member is added: one that cannot be derived belongs into Contents.
  [[maybe_unused]] const auto& [a, b, c, d, e, f] = *this;
}

absl::StatusOr<WorkerTable::Registered> WorkerTable::Register(const RegisterWorker& request,
                                                              absl::Time at) {
  DP_RETURN_IF_ERROR(CheckRequest(request));
  if (const auto it = by_incarnation_.find(request.incarnation); it != by_incarnation_.end()) {
    return Registered{it->second, false};
  }
  if (lost_lives_.count(request.incarnation) > 0) {
    return absl::FailedPreconditionError(
        "this incarnation was declared lost; stop its ranks and register with a new one");
  }
  Worker& worker = Named(request.name.empty() ? FreeName(request.host) : request.name);
  if (worker.ready() && worker.incarnation.valid()) {
    if (!worker.leaving || !worker.jobs().empty()) return NameTaken(worker);
    DP_CHECK(EndLife(worker, "it shut down, and another daemon has its name", at).empty());
  }
  worker.host = request.host;
  worker.address = request.address;
  worker.incarnation = request.incarnation;
  worker.state = WorkerState::kReady;
  worker.leaving = false;
  worker.slots.assign(request.slots, std::nullopt);
  worker.ports = request.ports;
  worker.gpus = request.gpus;
  worker.trains_on_gpus = request.trains_on_gpus;
  worker.labels = request.labels;
  worker.interface = request.interface;
  worker.process_tracking = request.process_tracking;
  worker.unhealthy.clear();
  worker.slot_report = 0;
  worker.lost_at.reset();
  worker.lost_reason.clear();
  by_incarnation_.emplace(request.incarnation, worker.id);
  DropLongLost(at);
  return Registered{worker.id, true};
}

std::vector<RankKey> WorkerTable::Lose(WorkerId id, const std::string& reason, absl::Time at) {
  std::vector<RankKey> orphans = EndLife(workers_.at(id), reason, at);
  DropLongLost(at);
  return orphans;
}

bool WorkerTable::Leave(WorkerId id) {
  Worker& worker = workers_.at(id);
  DP_CHECK(worker.ready());
  return !std::exchange(worker.leaving, true);
}

absl::StatusOr<bool> WorkerTable::SetUnhealthy(const ReportSlots& report) {
  Worker& worker = workers_.at(report.worker);
  DP_CHECK(worker.ready());
  for (const auto& [slot, reason] : report.unhealthy) {
    if (slot >= 0 && slot < static_cast<int>(worker.slots.size())) continue;
    return absl::InvalidArgumentError(absl::StrCat("worker ", worker.name, " has no slot ", slot,
                                                   ", only 0 to ", worker.slots.size() - 1));
  }
  if (report.number <= worker.slot_report) return false;
  worker.slot_report = report.number;
  worker.unhealthy = report.unhealthy;
  return true;
}

bool WorkerTable::SetDrain(WorkerId id, Drain drain) {
  std::optional<Drain>& now = workers_.at(id).drain;
  if (now.has_value() && now->reason == drain.reason && now->hand_over == drain.hand_over) {
    return false;
  }
  now = std::move(drain);
  return true;
}

bool WorkerTable::EndDrain(WorkerId id) {
  return std::exchange(workers_.at(id).drain, std::nullopt).has_value();
}

std::vector<RankKey> WorkerTable::EndLife(Worker& worker, const std::string& reason,
                                          absl::Time at) {
  DP_CHECK(worker.ready());
  worker.state = WorkerState::kLost;
  worker.lost_at = at;
  worker.lost_reason = reason;
  by_incarnation_.erase(worker.incarnation);
  RememberLost(worker.incarnation);
  return TakeHolders(worker);
}

void WorkerTable::Occupy(WorkerId id, int slot, const RankKey& rank) {
  std::optional<RankKey>& holder = workers_.at(id).slots.at(slot);
  DP_CHECK(!holder.has_value());
  holder = rank;
}

void WorkerTable::Vacate(WorkerId id, int slot, const RankKey& rank) {
  const auto it = workers_.find(id);
  if (it == workers_.end() || static_cast<size_t>(slot) >= it->second.slots.size()) return;
  std::optional<RankKey>& holder = it->second.slots[slot];
  if (holder == rank) holder.reset();
}

const Worker* WorkerTable::Find(WorkerId id) const {
  const auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : &it->second;
}

const Worker* WorkerTable::FindLife(Incarnation incarnation) const {
  const auto it = by_incarnation_.find(incarnation);
  return it == by_incarnation_.end() ? nullptr : Find(it->second);
}

absl::StatusOr<WorkerId> WorkerTable::IdOf(const std::string& name) const {
  if (const auto it = by_name_.find(name); it != by_name_.end()) return it->second;
  return absl::NotFoundError(
      absl::StrCat("no worker has the name '", name, "'; 'dpctl workers' lists all"));
}

absl::Status WorkerTable::Check(WorkerId id, Incarnation incarnation) const {
  const Worker* worker = Find(id);
  if (worker == nullptr) {
    return absl::NotFoundError(absl::StrCat("worker ", id.ToString(), " is not known; register"));
  }
  if (!worker->ready()) {
    return absl::FailedPreconditionError(absl::StrCat("worker ", worker->name,
                                                      " was declared lost: ", worker->lost_reason,
                                                      "; stop its ranks and register anew"));
  }
  if (worker->incarnation == incarnation) return absl::OkStatus();
  // Never names an incarnation: whoever knows the current one can act as this worker.
  return absl::FailedPreconditionError(
      absl::StrCat("worker ", worker->name,
                   ": the incarnation is stale, another one is registered; stop its ranks and "
                   "register anew"));
}

std::vector<const Worker*> WorkerTable::workers() const {
  std::vector<const Worker*> workers;
  for (const auto& [id, worker] : workers_) workers.push_back(&worker);
  std::sort(workers.begin(), workers.end(),
            [](const Worker* a, const Worker* b) { return NaturallyLess(a->name, b->name); });
  return workers;
}

// The host's own name, or the first of host-2, host-3, ..., that no ready worker has.
std::string WorkerTable::FreeName(const std::string& host) const {
  const auto taken = [this](const std::string& name) {
    const auto it = by_name_.find(name);
    return it != by_name_.end() && workers_.at(it->second).ready();
  };
  std::string name = host;
  for (int number = 2; taken(name); ++number) name = absl::StrCat(host, "-", number);
  return name;
}

Worker& WorkerTable::Named(const std::string& name) {
  const auto [it, is_new] = by_name_.try_emplace(name, WorkerId(last_id_ + 1));
  if (is_new) {
    Worker& worker = workers_[WorkerId(++last_id_)];
    worker.id = it->second;
    worker.name = name;
  }
  return workers_.at(it->second);
}

void WorkerTable::RememberLost(Incarnation incarnation) {
  lost_lives_.insert(incarnation);
  lost_lives_in_order_.push_back(incarnation);
  if (lost_lives_in_order_.size() <= kLostLivesMax) return;
  lost_lives_.erase(lost_lives_in_order_.front());
  lost_lives_in_order_.pop_front();
}

void WorkerTable::DropLongLost(absl::Time now) {
  std::vector<const Worker*> lost;
  for (const auto& [id, worker] : workers_) {
    if (!worker.ready()) lost.push_back(&worker);
  }
  std::sort(lost.begin(), lost.end(), [](const Worker* a, const Worker* b) {
    return *a->lost_at != *b->lost_at ? *a->lost_at > *b->lost_at : a->id > b->id;
  });
  for (size_t i = 0; i < lost.size(); ++i) {
    // A drained worker stays: its next incarnation must find the drain.
    const bool kept = lost[i]->drain.has_value() || now - *lost[i]->lost_at <= kLostKeptFor;
    if (i < kLostMax && kept) continue;
    by_name_.erase(lost[i]->name);
    workers_.erase(WorkerId(lost[i]->id));
  }
}

}  // namespace dp::core
