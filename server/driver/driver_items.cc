// How the driver handles one item of its queue, before and after the batch is on record.

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/overloaded.h"
#include "base/status.h"
#include "server/driver/driver.h"
#include "server/policy/predecessors.h"

namespace dp::server {

absl::Status Driver::Ended(const absl::Status& failure) {
  constexpr char kStopping[] = "the coordinator is stopping";
  if (failure.ok()) return absl::UnavailableError(kStopping);
  return absl::UnavailableError(
      absl::StrCat(kStopping, ": its journal failed: ", failure.message()));
}

absl::Status Driver::NotKnown(const absl::Status& failure) {
  if (failure.ok()) return Ended();
  return absl::UnavailableError(
      absl::StrCat(Ended(failure).message(), "; whether the command took effect is not known"));
}

size_t Driver::BytesIn(const std::vector<Item>& items) {
  size_t bytes = 0;
  for (const Item& item : items) {
    if (const auto* command = std::get_if<CommandItem>(&item)) bytes += command->bytes;
  }
  return bytes;
}

void Driver::Take(Item& item) {
  if (auto* command = std::get_if<CommandItem>(&item)) {
    if (command->submitter.permit) {
      command->outcome.status = command->submitter.permit(MakeView());
      if (!command->outcome.status.ok()) return;
    }
    command->outcome.status = Admit(command->action);
    if (!command->outcome.status.ok()) return;
    if (const auto* worker = std::get_if<core::RegisterWorker>(&command->action)) {
      for (core::LoseWorker& lost : core::PredecessorsOf(*worker, coordinator_, liveness_, now_)) {
        (void)Lose(std::move(lost));  // a second verdict on one incarnation is a no-op
      }
    }
    if (const auto* joins = std::get_if<core::UseToken>(&command->action)) {
      auto lost = core::PredecessorOf(*joins, coordinator_, liveness_, now_);
      if (lost) (void)Lose(*std::move(lost));
    }
    if (auto* accusation = std::get_if<core::AccusePeers>(&command->action)) {
      NoteSilent(*accusation);
    }
    command->outcome = Apply(std::move(command->action), std::move(command->submitter.actor));
  } else if (auto* hear = std::get_if<HearItem>(&item)) {
    if (hear->permit) hear->permitted = hear->permit(MakeView());
    if (!hear->permitted.ok()) return;
    if (coordinator_.CheckWorker(hear->worker, hear->incarnation).ok()) {
      liveness_.Hear(hear->worker, hear->incarnation, now_, hear->lease_number);
    }
  } else if (auto* logs = std::get_if<LogsItem>(&item)) {
    // An append that was in flight while its job was forgotten must not bring the job back.
    if (coordinator_.job(logs->job) == nullptr) return;
    log_versions_[logs->job] = std::max(log_versions_[logs->job], logs->version);
    changed_.push_back({.kind = core::Topic::Kind::kLogs, .id = logs->job.value()});
  }
}

absl::Status Driver::Admit(const core::Action& action) {
  if (!options_.disk_available) return absl::OkStatus();
  if (const auto* submit = std::get_if<core::SubmitJob>(&action)) return AdmitJob(*submit);
  const auto* batch = std::get_if<core::StoreBatch>(&action);
  if (batch == nullptr) return absl::OkStatus();
  const auto room = [this](uint64_t enough) { return Room(enough); };
  return options_.disk.CheckWrites(room, *batch, unsynced_bytes_);
}

// Forgets jobs last: a rejected submission must not delete the history of others.
absl::Status Driver::AdmitJob(const core::SubmitJob& submit) {
  const core::JobRegistry& jobs = coordinator_.state().jobs;
  if (jobs.FindRequest(submit.request_id).has_value()) return absl::OkStatus();  // a repetition
  DP_RETURN_IF_ERROR(coordinator_.Draft(submit, now_).status());
  const DiskLimits& disk = options_.disk;
  const auto room = [this](uint64_t enough) { return Room(enough); };
  DP_RETURN_IF_ERROR(disk.CheckSubmit(room, submit, unsynced_bytes_));
  const uint64_t bytes = submit.spec_bytes();
  if (jobs.spec_bytes() + bytes <= disk.job_specs_bytes_max) return absl::OkStatus();
  DP_RETURN_IF_ERROR(disk.CheckSpecs(coordinator_, submit));
  ForgetDownTo(disk.job_specs_bytes_max - bytes, submit);
  return absl::OkStatus();
}

void Driver::ForgetDownTo(uint64_t spec_bytes, const core::SubmitJob& submit) {
  const core::JobRegistry& jobs = coordinator_.state().jobs;
  for (size_t oldest = 0; jobs.spec_bytes() > spec_bytes && oldest < jobs.finished().size();) {
    const JobId job = jobs.finished()[oldest];
    if (WaitsFor(submit, job)) {
      ++oldest;
      continue;
    }
    (void)Apply(core::ForgetJob{job});  // accepted: terminal, and on record
    forgot_for_room_ = true;
  }
}

// Reads the disk's free space once per batch: the driver itself writes nothing in between.
uint64_t Driver::Room(uint64_t enough) {
  if (!available_.has_value()) {
    const uint64_t on_disk = options_.disk_available();
    available_ = on_disk - std::min(on_disk, journal_.backlog_bytes());
  }
  return *available_ >= enough ? *available_ : *available_ + journal_.spare_bytes();
}

// The machine has no clock, so the command records which peers are silent.
void Driver::NoteSilent(core::AccusePeers& accusation) const {
  const core::Job* job = coordinator_.job(accusation.rank.job);
  if (job == nullptr || job->generation != accusation.rank.generation) return;
  for (const int peer : accusation.missing) {
    if (peer < 0 || static_cast<size_t>(peer) >= job->ranks.size()) continue;
    if (liveness_.missed_heartbeat(job->ranks[peer].worker_id, now_)) {
      accusation.silent.push_back(peer);
    }
  }
}

void Driver::Answer(Item& item) {
  const View view = MakeView();
  const absl::Status ok;
  std::visit(Overloaded{[&](CommandItem& command) { command.done(command.outcome, view); },
                        [&](AskItem& ask) { ask.done(ok, view); },
                        [&](HearItem& hear) {
                          if (!hear.permitted.ok()) return hear.done(hear.permitted, view);
                          hear.done(coordinator_.CheckWorker(hear.worker, hear.incarnation), view);
                        },
                        [&](LogsItem& logs) { logs.done(ok, view); }, [](WaitItem&) {},
                        [](CancelItem&) {}},
             item);
}

void Driver::Attend(Item& item) {
  auto* wait = std::get_if<WaitItem>(&item);
  if (wait == nullptr) return;
  if (wait->blocked) wait->blocked->since = now_ - wait->blocked->waited;
  auto question = [this, ask = std::move(wait->question)](Waiters::Wake wake,
                                                          Waiters::Changed changed) {
    View view = MakeView();
    view.changed = changed;
    return ask(wake, view);
  };
  offers_.OnParked(wait->topics);
  waiters_.Park({wait->ticket, std::move(wait->topics), now_ + wait->timeout, std::move(question),
                 std::move(wait->blocked)});
}

void Driver::AnswerAllEnded(std::vector<Item>& items) {
  const View view = MakeView();
  const absl::Status ended = Ended(failure_);
  const core::Outcome unknown{.status = NotKnown(failure_)};
  for (Item& item : items) {
    std::visit(Overloaded{[&](CommandItem& command) { command.done(unknown, view); },
                          [&](AskItem& ask) { ask.done(ended, view); },
                          [&](HearItem& hear) { hear.done(ended, view); },
                          [&](LogsItem& logs) { logs.done(ended, view); },
                          [&](WaitItem& wait) { wait.question(Waiters::Wake::kStopping, view); },
                          [&](CancelItem&) {}},
               item);
  }
}

}  // namespace dp::server
