#include "worker/core/observed.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace dp::worker {

void Observed::AskedToStart(const AssignedRank& rank) {
  const bool added = processes_
                         .try_emplace(rank.key, Process{.number = ++processes_begun_,
                                                        .slot = rank.slot,
                                                        .grace = rank.grace,
                                                        .job_submitted_at = rank.job_submitted_at})
                         .second;
  DP_CHECK(added);
}

void Observed::Declined(const AssignedRank& rank, const std::string& reason, absl::Time now) {
  AskedToStart(rank);
  // Kept as a failed start, so that it is reported, released and forgotten in the same way.
  processes_.at(rank.key).declined = true;
  StartFailed(rank.key, reason, now);
}

void Observed::Terminated(const RankKey& key, absl::Time now) {
  if (Process* process = FindMutable(key)) process->terminated_at = now;
}

void Observed::Killed(const RankKey& key, bool isolated) {
  Process* process = FindMutable(key);
  if (process == nullptr) return;
  process->killed = true;
  process->isolated = isolated;
}

void Observed::Forgotten(const RankKey& key) { processes_.erase(key); }

void Observed::Started(const RankKey& key, int64_t pid) {
  Process* process = FindMutable(key);
  // A process that dies at once may be reaped before its start is confirmed. Its exit says more.
  if (process == nullptr || process->phase != Process::Phase::kStarting) return;
  process->phase = Process::Phase::kRunning;
  process->pid = pid;
  process->fact = ++facts_;
}

void Observed::StartFailed(const RankKey& key, const std::string& error, absl::Time now) {
  Process* process = FindMutable(key);
  if (process == nullptr || process->phase != Process::Phase::kStarting) return;
  DP_CHECK(!error.empty());
  process->phase = Process::Phase::kGone;
  process->error = error;
  process->gone_at = now;
  process->fact = ++facts_;
}

void Observed::Exited(const RankKey& key, const Exit& exit, std::vector<std::string> last_lines,
                      bool oom) {
  Process* process = FindMutable(key);
  if (process == nullptr || process->phase >= Process::Phase::kExited) return;
  process->phase = Process::Phase::kExited;
  process->exit = exit;
  process->last_lines = std::move(last_lines);
  process->oom = oom && !process->stopped();
  // Numbered again, so that the first exit is reported first, not the first start.
  process->fact = ++facts_;
}

void Observed::Gone(const RankKey& key, absl::Time now) {
  Process* process = FindMutable(key);
  if (process == nullptr || process->phase == Process::Phase::kGone) return;
  DP_CHECK(process->phase == Process::Phase::kExited);
  process->phase = Process::Phase::kGone;
  process->gone_at = now;
}

void Observed::SlotIs(int slot, SlotFitness fitness) { slots_[slot] = std::move(fitness); }

const SlotFitness& Observed::fitness(int slot) const {
  static const SlotFitness kFit;
  const auto found = slots_.find(slot);
  return found == slots_.end() ? kFit : found->second;
}

void Observed::LogsMoved(const RankKey& key, absl::Time now) {
  Process* process = FindMutable(key);
  if (process == nullptr) return;
  process->logs_moved_at = now;
  process->logs_refused = false;
}

void Observed::LogsRefused(const RankKey& key) {
  if (Process* process = FindMutable(key)) process->logs_refused = true;
}

void Observed::LogsShipped(const RankKey& key) {
  if (Process* process = FindMutable(key)) process->logs_shipped = true;
}

void Observed::Acknowledged(const RankKey& key, Milestone milestone) {
  Process* process = FindMutable(key);
  if (process == nullptr) return;
  process->acknowledged = std::max(process->acknowledged, milestone);
}

void Observed::Reachable(absl::Time now) {
  if (!reachable_since_.has_value()) reachable_since_ = now;
}

void Observed::Unreachable() { reachable_since_.reset(); }

void Observed::LeaseHeldUntil(absl::Time until) { lease_held_until_ = until; }

const Process* Observed::Find(const RankKey& key) const {
  const auto found = processes_.find(key);
  return found == processes_.end() ? nullptr : &found->second;
}

Process* Observed::FindMutable(const RankKey& key) {
  const auto found = processes_.find(key);
  return found == processes_.end() ? nullptr : &found->second;
}

}  // namespace dp::worker
