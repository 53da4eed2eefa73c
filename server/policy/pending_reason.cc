#include "server/policy/pending_reason.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/no_memory_limit.h"
#include "base/takes_secrets.h"
#include "server/core/job.h"

namespace dp::core {
namespace {

using Code = PendingReason::Code;
using Count = SlotSupply::Count;

// "2 workers", "2 GPU slots to train on".
std::string Counted(size_t count, absl::string_view thing, absl::string_view more = "") {
  return absl::StrCat(count, " ", thing, count == 1 ? "" : "s", more);
}

// "1 slot", "2 GPU slots" or "2 CPU slots".
std::string SlotsText(size_t count, const SlotNeed& need) {
  switch (need.kind) {
    case SlotKind::kGpu:
      return Counted(count, "GPU slot");
    case SlotKind::kCpu:
      return Counted(count, "CPU slot");
    case SlotKind::kTrainingGpu:
      return Counted(count, "GPU slot", " to train on");
    case SlotKind::kAny:
      break;
  }
  return Counted(count, "slot");
}

// Implied by memoryMibPerRank, by secrets, and by fields of a training that earlier trainers do not
// know. No user has written them, so no message shows them.
LabelConstraint LimitsMemory() { return {LabelConstraint::How::kAbsent, kNoMemoryLimit, ""}; }
LabelConstraint TakesSecrets() { return {LabelConstraint::How::kPresent, kTakesSecrets, ""}; }

bool IsTrainerLevel(const LabelConstraint& constraint) {
  return constraint.how == LabelConstraint::How::kPresent &&
         absl::StartsWith(constraint.key, kTrainerLevelPrefix);
}

bool IsImplied(const LabelConstraint& constraint) {
  return constraint == LimitsMemory() || constraint == TakesSecrets() || IsTrainerLevel(constraint);
}

std::string WithConstraints(const SlotNeed& need) {
  std::vector<std::string> shown;
  for (const LabelConstraint& each : need.constraints) {
    if (IsImplied(each)) continue;
    shown.push_back(ToString(each));
  }
  return shown.empty() ? "" : absl::StrCat(" with ", absl::StrJoin(shown, ", "));
}

std::string Needs(const SlotNeed& need, const Count& count) {
  if (need.nodes == 0) {
    return absl::StrCat("needs ", SlotsText(need.ranks, need), ", ", count.free, " free of ",
                        count.all, " in all on ", Counted(count.workers, "worker"),
                        WithConstraints(need));
  }
  return absl::StrCat("needs ", Counted(need.nodes, "worker"), " with ",
                      SlotsText(need.each(), need), " each, ", count.free_workers, " of ",
                      Counted(count.workers, "worker"), WithConstraints(need), " free for it");
}

// Counts the slots that would do, but are unhealthy.
std::string Unusable(const SlotNeed& need, const SlotSupply& supply) {
  size_t slots = 0;
  std::vector<std::string> names;
  for (const WorkerSlots* worker : supply.Eligible(need)) {
    const size_t of_worker = absl::c_count_if(worker->unhealthy, [&](int slot) {
      return supply.CanUse(need, {.worker = worker->id, .slot = slot});
    });
    slots += of_worker;
    if (of_worker > 0 && names.size() < kBlockersMax) names.push_back(worker->name);
  }
  if (slots == 0) return "";
  return absl::StrCat("; ", slots, " of them cannot be used now, on ", absl::StrJoin(names, ", "),
                      ": 'dpctl workers' says why");
}

// If workers have GPUs that no trainer can use, starting more of them would not help.
std::string WithoutTrainer(const SlotNeed& need, const SlotSupply& supply) {
  SlotNeed with_gpus = need;
  with_gpus.kind = SlotKind::kGpu;
  std::vector<std::string> names;
  for (const WorkerSlots* worker : supply.Eligible(with_gpus)) {
    if (!worker->trains_on_gpus && names.size() < kBlockersMax) names.push_back(worker->name);
  }
  if (need.kind != SlotKind::kTrainingGpu || names.empty()) return "";
  return absl::StrCat("; no trainer uses the GPUs of ", absl::StrJoin(names, ", "),
                      ": 'dpctl workers --gpus' says why, and 'train.device: auto' would train on "
                      "CPUs");
}

// The workers that this implied constraint keeps out. Another implied one may keep them out too; a
// constraint that the user has written does not.
std::vector<std::string> KeptOutBy(const LabelConstraint& constraint, const SlotNeed& need,
                                   const SlotSupply& supply) {
  std::vector<std::string> names;
  if (!absl::c_linear_search(need.constraints, constraint)) return names;
  SlotNeed without = need;
  std::erase_if(without.constraints, IsImplied);
  for (const WorkerSlots* worker : supply.Eligible(without)) {
    if (!Satisfies(worker->labels, constraint) && names.size() < kBlockersMax) {
      names.push_back(worker->name);
    }
  }
  return names;
}

std::string WorkersNamed(const std::vector<std::string>& names) {
  return absl::StrCat(names.size() == 1 ? "worker " : "workers ", absl::StrJoin(names, ", "));
}

// Names the workers that the job's memoryMibPerRank keeps out.
std::string WithoutMemoryLimit(const SlotNeed& need, const SlotSupply& supply) {
  const std::vector<std::string> names = KeptOutBy(LimitsMemory(), need, supply);
  if (names.empty()) return "";
  return absl::StrCat("; ", WorkersNamed(names), " cannot limit memory: set Delegate=yes in ",
                      names.size() == 1 ? "its" : "their",
                      " dp-worker unit, or submit without memoryMibPerRank");
}

// Names the workers that the job's secrets keep out.
std::string WithoutSecrets(const SlotNeed& need, const SlotSupply& supply) {
  const std::vector<std::string> names = KeptOutBy(TakesSecrets(), need, supply);
  if (names.empty()) return "";
  const bool one = names.size() == 1;
  return absl::StrCat("; ", WorkersNamed(names), one ? " takes" : " take", " no secrets: upgrade ",
                      one ? "its daemon" : "their daemons", ", and let ", one ? "it" : "them",
                      " join over TLS");
}

// Names the workers whose trainers would ignore fields of the job.
std::string WithoutTrainerLevel(const SlotNeed& need, const SlotSupply& supply) {
  const auto level = absl::c_find_if(need.constraints, IsTrainerLevel);
  if (level == need.constraints.end()) return "";
  const std::vector<std::string> names = KeptOutBy(*level, need, supply);
  if (names.empty()) return "";
  const bool one = names.size() == 1;
  return absl::StrCat("; the ", one ? "trainer" : "trainers", " of ", WorkersNamed(names),
                      " would ignore fields of this job: upgrade dp on ",
                      one ? "that worker" : "those workers");
}

std::string Missing(const SlotNeed& need, const Count& count) {
  const std::string with = WithConstraints(need);
  if (need.nodes == 0) {
    return absl::StrCat(SlotsText(need.ranks - count.all, need), " missing: start more workers",
                        with, ", or submit with fewer ranks",
                        with.empty() ? "" : " or other constraints");
  }
  return absl::StrCat(Counted(need.nodes - count.large_workers, "worker"), " with ",
                      SlotsText(need.each(), need), with.empty() ? "" : " and", with,
                      " missing: start more, or submit with fewer nodes or ranks on each");
}

// The jobs that hold slots which this one could use.
std::vector<JobId> Holders(const SlotNeed& need, const SlotSupply& supply,
                           const std::vector<RunningJob>& running) {
  std::vector<JobId> holders;
  for (const RunningJob& job : running) {
    if (holders.size() == kBlockersMax) break;
    const bool holds =
        std::any_of(job.slots.begin(), job.slots.end(),
                    [&](const PlaceJob::Slot& slot) { return supply.CanUse(need, slot); });
    if (holds) holders.push_back(job.id);
  }
  return holders;
}

PendingReason WhyDrained(const SlotNeed& need, const SlotSupply& supply) {
  PendingReason reason{Code::kDrain, ""};
  for (const WorkerSlots* worker : supply.Eligible(need)) {
    if (worker->drained && reason.workers.size() < kBlockersMax) {
      reason.workers.push_back(worker->name);
    }
  }
  reason.text = absl::StrCat("would fit if not drained: ", absl::StrJoin(reason.workers, ", "));
  return reason;
}

PendingReason WhyAwaits(const AwaitedJob& awaited) {
  const std::string other = absl::StrCat("job ", awaited.on.job.ToString());
  if (awaited.state == AwaitedJob::State::kInVain) {
    return {Code::kUnsatisfiable,
            absl::StrCat(other,
                         " did not succeed, as it should have before this one; cancel this "
                         "one, or submit both again"),
            {awaited.on.job}};
  }
  return {Code::kDependency,
          absl::StrCat("waits for ", other, " to ", awaited.on.must_succeed ? "succeed" : "end"),
          {awaited.on.job}};
}

// "job 3" or "jobs 3, 4".
std::string JobNumbers(const std::vector<JobId>& jobs) {
  return absl::StrCat(
      jobs.size() == 1 ? "job " : "jobs ",
      absl::StrJoin(jobs, ", ", [](std::string* out, JobId job) { out->append(job.ToString()); }));
}

}  // namespace

std::vector<PendingReason> WhyNotItsTurn(const Job& job, JobId same_name) {
  std::vector<PendingReason> reasons;
  if (job.held) {
    reasons.push_back(
        {Code::kHeld, absl::StrCat("held until 'dpctl release ", job.id.ToString(), "'")});
  }
  for (const AwaitedJob& awaited : job.after) {
    if (awaited.state == AwaitedJob::State::kDone) continue;
    PendingReason reason = WhyAwaits(awaited);
    // `after` may name a job twice.
    if (!absl::c_linear_search(reasons, reason)) reasons.push_back(std::move(reason));
  }
  if (job.spec.scheduling.singleton && same_name.valid()) {
    reasons.push_back({Code::kDependency,
                       absl::StrCat("is a singleton, and job ", same_name.ToString(),
                                    " of the same name and user is not over"),
                       {same_name}});
  }
  return reasons;
}

std::vector<PendingReason> WhyAboveLimit(const std::vector<LimitLedger::Reached>& reached) {
  std::vector<PendingReason> reasons;
  for (const LimitLedger::Reached& limit : reached) {
    std::vector<JobId> jobs = limit.jobs;
    if (jobs.size() > kBlockersMax) jobs.resize(kBlockersMax);
    reasons.push_back({limit.never ? Code::kUnsatisfiable : Code::kLimit,
                       absl::StrCat(limit.what, limit.never ? "; the job alone is above that" : ""),
                       std::move(jobs)});
  }
  return reasons;
}

std::vector<PendingReason> WhyNoSlots(const SlotNeed& need, const SlotSupply& supply,
                                      const std::vector<RunningJob>& running) {
  const Count count = supply.CountFor(need);
  std::vector<PendingReason> reasons = {{Code::kResources,
                                         absl::StrCat(Needs(need, count), Unusable(need, supply)),
                                         Holders(need, supply, running)}};
  if (SlotSupply::FitsIdle(need, count)) return reasons;
  if (SlotSupply::FitsIdle(need, supply.CountFor(need, /*with_drained=*/true))) {
    reasons.push_back(WhyDrained(need, supply));
  } else {
    reasons.push_back({Code::kUnsatisfiable,
                       absl::StrCat(Missing(need, count), WithoutTrainer(need, supply),
                                    WithoutMemoryLimit(need, supply), WithoutSecrets(need, supply),
                                    WithoutTrainerLevel(need, supply))});
  }
  return reasons;
}

PendingReason WhyBehind(JobId head) {
  return {Code::kPriority, absl::StrCat("job ", head.ToString(), " is ahead of it"), {head}};
}

PendingReason WhyPreempts(std::vector<JobId> victims) {
  std::string text = absl::StrCat("preempts ", JobNumbers(victims), " of lower priority");
  return {Code::kPreemption, std::move(text), std::move(victims)};
}

PendingReason WhyAwaitsLeaving(std::vector<JobId> leaving) {
  std::string text = absl::StrCat("waits until ", JobNumbers(leaving), ", which it preempts, ",
                                  leaving.size() == 1 ? "has" : "have", " left");
  return {Code::kPreemption, std::move(text), std::move(leaving)};
}

PendingReason WhyPreempted(JobId by) {
  return {Code::kPreempted,
          absl::StrCat("job ", by.ToString(), " of higher priority took its slots"),
          {by}};
}

PendingReason WhyNoPort(const PortSupply& ports) {
  const StorePortRange& range = ports.range();
  const char* taken = "taken by another program where the store would be served, ";
  return {Code::kStorePort,
          absl::StrCat("no store port is left: each of ", range.first, " to ", range.last, " is ",
                       ports.some_unusable() ? taken : "", "a job's, or rests ",
                       absl::FormatDuration(range.least_rest()),
                       " after one; give the coordinator more with --store-ports")};
}

// Without the time that is left, since reasons are shown long after they were found.
PendingReason WhyBackingOff() {
  return {Code::kBackOff, "its last generation failed soon, and the next one is not due yet"};
}

}  // namespace dp::core
