#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/id.h"
#include "server/core/store_ports.h"
#include "server/policy/limits.h"
#include "server/policy/reservation.h"
#include "server/policy/slot_supply.h"

// Why a job waits, in words and for programs. Pure.

namespace dp::core {

struct Job;

struct PendingReason {
  enum class Code {
    kResources,      // too few free slots
    kPriority,       // a job ahead of it waits for the same slots
    kLimit,          // it would break a limit of its user or queue
    kDependency,     // other jobs must end first
    kHeld,           // somebody must release it
    kUnsatisfiable,  // would not fit on idle workers either; or a job that it needs has failed
    kStorePort,      // no port is left for its store
    kDrain,          // suitable workers are drained
    kBackOff,        // it failed, and its next generation is not due yet
    kPreemption,     // other jobs leave their slots to it
    kPreempted,      // another job has taken its slots
  };
  Code code = Code::kResources;
  std::string text;
  std::vector<JobId> jobs = {};           // that it waits for
  std::vector<std::string> workers = {};  // that it waits for

  bool operator==(const PendingReason&) const = default;
};

// The most jobs or workers that a reason names; nobody would read more.
inline constexpr size_t kBlockersMax = 16;

// The reasons in the job itself and in the jobs that it waits for; empty if it has its turn.
// `same_name` is the earliest unfinished job of its name and user, if that is another job.
std::vector<PendingReason> WhyNotItsTurn(const Job& job, JobId same_name);

// The limits that the job would break.
std::vector<PendingReason> WhyAboveLimit(const std::vector<LimitLedger::Reached>& reached);

// Too few slots are free for the job, or it would not fit on idle workers either.
std::vector<PendingReason> WhyNoSlots(const SlotNeed& need, const SlotSupply& supply,
                                      const std::vector<RunningJob>& running);

PendingReason WhyBehind(JobId head);
PendingReason WhyNoPort(const PortSupply& ports);
PendingReason WhyBackingOff();

// The jobs that leave for this one: asked now, or asked before.
PendingReason WhyPreempts(std::vector<JobId> victims);
PendingReason WhyAwaitsLeaving(std::vector<JobId> leaving);
// Added to the other reasons of a preempted job.
PendingReason WhyPreempted(JobId by);

}  // namespace dp::core
