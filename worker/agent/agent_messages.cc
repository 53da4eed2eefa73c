#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/program/log.h"
#include "worker/agent/agent.h"
#include "worker/agent/gpus/gpu_report.h"
#include "worker/agent/local_address.h"
#include "worker/agent/processes/exit_record.h"
#include "worker/agent/rank_log.h"
#include "worker/agent/rank_report.h"

// How the daemon handles the messages of its other threads.

namespace dp::worker {
namespace {

bool IsSameJob(const v1::AssignedRank& a, const v1::AssignedRank& b) {
  return a.submitted_at().seconds() == b.submitted_at().seconds() &&
         a.submitted_at().nanos() == b.submitted_at().nanos();
}

}  // namespace

void Agent::On(const Registered& message) {
  Log(Severity::kInfo, "registered",
      {{"worker", message.name}, {"id", message.session.worker_id}, {"address", message.address}});
  const bool first = rank_host_.worker.empty();
  rank_host_.worker = message.name;
  rank_host_.address = message.address;
  rank_host_.facts.interface = InterfaceWith(message.address);
  session_ = message.session;
  observed_.Reachable(clock_.Now());
  // A coordinator registers its workers anew after each of its starts, and may run on another host
  // now.
  if (options_.coordinator_probe != nullptr) options_.coordinator_probe->LookUpAgain();
  watch_.Use(session_);
  shipper_.Use(session_);
  if (options_.notify != nullptr) options_.notify->Status("registered as " + message.name);
  if (first && options_.on_registered) options_.on_registered(message.name);
}

void Agent::On(const CoordinatorAnswered&) { observed_.Reachable(clock_.Now()); }

void Agent::On(const CoordinatorSilent&) { observed_.Unreachable(); }

void Agent::On(const LeaseHeld& message) { observed_.LeaseHeldUntil(message.until); }

void Agent::Abandon() {
  desired_.mode = Mode::kAbandon;
  desired_.ranks.clear();
  assigned_.clear();
}

void Agent::On(const LeaseLost& message) {
  if (message.incarnation != incarnation_) return;
  Log(Severity::kError, "lease_lost", {{"reason", message.reason.ToString()}});
  Abandon();
}

void Agent::On(const RegistrationRefused& message) {
  Abandon();
  ending_ = absl::Status(
      message.reason.code(),
      absl::StrCat("the coordinator refuses this worker: ", std::string(message.reason.message())));
}

// Ignored while abandoning: that incarnation has no ranks left, even if a late assignment names
// some.
void Agent::On(const AssignmentChanged& message) {
  if (message.incarnation != incarnation_ || desired_.mode == Mode::kAbandon) return;
  const auto before = std::exchange(assigned_, {});
  const v1::AssignedRank* first = nullptr;  // of its job, whose secrets are those of all
  for (const v1::AssignedRank& rank : message.assignment.ranks()) {
    // A coordinator that was set up anew gives the numbers of earlier jobs to other ones.
    const auto same = before.find(KeyOf(rank));
    if (same == before.end() || !IsSameJob(same->second, rank)) accounts_.Assigned(rank);
    if (first == nullptr || first->job() != rank.job()) first = &rank;
    v1::AssignedRank& assigned = assigned_[KeyOf(rank)];
    assigned = rank;
    *assigned.mutable_secrets() = first->secrets();
    assigned.set_no_secrets(first->no_secrets());
  }
  accounts_.KeepFor(assigned_);
  WantAssigned();
}

void Agent::WantAssigned() {
  desired_.ranks.clear();
  for (const auto& [key, rank] : assigned_) {
    const bool to_start =
        desired_.mode == Mode::kServe && !rank.stop() && observed_.Find(key) == nullptr;
    if (!to_start || accounts_.Known(rank)) desired_.ranks[key] = FromProto(rank);
  }
}

void Agent::On(const AccountFound& message) {
  accounts_.Found(message.name, message.account);
  WantAssigned();
}

void Agent::On(const ReportAnswered& message) {
  if (!report_turn_.Done(message.status, clock_.Now())) return;
  const Process* process = observed_.Find(message.key);
  if (process != nullptr && process->number != message.process) return;  // another rank's by now
  observed_.Acknowledged(message.key, message.milestone);
  if (message.milestone == Milestone::kExited) RemoveExitRecord(SpoolOf(message.key).exit_file());
}

void Agent::On(const SlotsAnswered& message) {
  slots_.ReportAnswered(report_turn_.Done(message.status, clock_.Now()));
}

void Agent::On(const DeviceMemoryRead& message) { slots_.Answered(message.memory, clock_.Now()); }

void Agent::On(const GpusRead& message) {
  slots_.Read(message.gpus);
  for (const auto& [key, process] : observed_.processes()) {
    if (process.phase == Process::Phase::kRunning) WriteGpuMetrics(key, process, message.gpus);
  }
}

// Appends to the rank's own metrics, and only while the rank runs, so that the stream ends with the
// rank.
void Agent::WriteGpuMetrics(const RankKey& key, const Process& process,
                            const std::vector<GpuReading>& gpus) {
  const auto assigned = assigned_.find(key);
  const bool elsewhere = assigned == assigned_.end() ||
                         (assigned->second.spec().has_train() && !assigned->second.on_gpu());
  const size_t slot = static_cast<size_t>(process.slot);
  if (elsewhere || slot >= options_.slot_devices.size()) return;
  const std::string lines =
      GpuMetricLines(key.rank, options_.slot_devices[slot], gpus, clock_.Now());
  if (lines.empty()) return;
  const absl::Status written = SpoolOf(key).Append(v1::LOG_STREAM_METRICS, lines);
  if (written.ok()) gpu_metrics_trouble_.Worked();
  if (!written.ok()) gpu_metrics_trouble_.Failed(written);
}

void Agent::On(const ProcessNews& message) {
  std::visit([&](const auto& news) { TakeNews(message.key, news); }, message.what);
}

void Agent::TakeNews(const RankKey& key, const ProcessStarted& news) {
  LogRank(Severity::kInfo, "rank_started", key, LogField("pid", news.pid));
  observed_.Started(key, news.pid);
}

void Agent::TakeNews(const RankKey& key, const ProcessNotStarted& news) {
  std::string error = news.error;
  SpoolOf(key).Mask().Hide(&error, {});
  LogRank(Severity::kError, "rank_not_started", key, LogField("reason", error));
  SlotLeft(key);
  observed_.StartFailed(key, error, clock_.Now());
  shipper_.Finish(key);  // tells the coordinator that there are no logs
}

void Agent::TakeNews(const RankKey& key, const ProcessExited& news) {
  const bool code = news.exit.how == Exit::How::kCode;
  LogRank(Severity::kInfo, "rank_exited", key,
          LogField(code ? "code" : "signal", news.exit.number));
  const bool killed = news.exit == Exit{Exit::How::kSignal, SIGKILL};
  const bool grew = OomKillsGrew();
  observed_.Exited(key, news.exit, SpoolOf(key).LastLines(), killed && news.oom.value_or(grew));
}

void Agent::SlotLeft(const RankKey& key) {
  const Process* process = observed_.Find(key);
  if (process != nullptr) slots_.TreeGone(process->slot, clock_.Now());
}

bool Agent::OomKillsGrew() {
  if (!options_.oom_kills) return false;
  const int64_t before = std::exchange(oom_kills_, options_.oom_kills());
  return oom_kills_ > before;
}

void Agent::TakeNews(const RankKey& key, const ProcessGone&) {
  SlotLeft(key);
  observed_.Gone(key, clock_.Now());
  shipper_.Finish(key);
}

void Agent::On(const LogsNews& message) {
  if (!shipper_.Follows(message)) return;
  if (message.refused) {
    observed_.LogsRefused(message.key);
    return;
  }
  observed_.LogsMoved(message.key, clock_.Now());
  if (!message.all) return;
  observed_.LogsShipped(message.key);
  if (left_overs_.contains(message.key)) left_overs_.Drop(message.key);
}

void Agent::On(const GenerationOver& message) {
  if (options_.stores == nullptr) return;
  options_.stores->GenerationOver(message.job, message.generation);
  if (!Holds(message.job, message.generation))
    options_.stores->RanksGone(message.job, message.generation);
}

bool Agent::Holds(JobId job, Generation generation) const {
  const auto& processes = observed_.processes();
  const auto first = processes.lower_bound({job, generation, 0});
  return first != processes.end() && first->first.job == job &&
         first->first.generation == generation;
}

void Agent::On(const LeaveTold&) { desired_.announcing = false; }

void Agent::On(const ShutdownWanted&) {
  const bool again = ending_.has_value();
  Log(Severity::kInfo, "shutdown", {{"now", again ? "yes" : "no"}});
  if (options_.notify != nullptr) options_.notify->Stopping();
  if (again) return Abandon();
  lease_.Leave();
  desired_.announcing = true;
  ending_ = absl::OkStatus();
  if (desired_.mode == Mode::kServe) desired_.mode = Mode::kStop;
  WantAssigned();
}

}  // namespace dp::worker
