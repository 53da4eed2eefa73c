#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/id.h"
#include "server/core/limits.h"
#include "server/core/reservation.h"
#include "server/core/slot_supply.h"
#include "server/core/store_ports.h"

// Why a job waits, in words and for programs. Pure.

namespace dp::core {

struct Job;

struct PendingReason {
  enum class Code {
    kResources,      // too few free slots
    kPriority,       // a job ahead of it waits for the same slots
    kLimit,          // of its user or queue
    kDependency,     // other jobs must be over first
    kHeld,           // somebody has to release it
    kUnsatisfiable,  // not even if these workers were idle; or what it waits for has failed
    kStorePort,      // no port is left for its store
    kDrain,          // workers that would do are drained
    kBackOff,        // it failed, and its next generation is not due yet
    kPreemption,     // others leave their slots to it
    kPreempted,      // another has taken its slots
  };
  Code code = Code::kResources;
  std::string text;
  std::vector<JobId> jobs = {};           // that it waits for
  std::vector<std::string> workers = {};  // that it waits for

  bool operator==(const PendingReason&) const = default;
};

// Of the jobs or workers that a reason names; more would not be read.
inline constexpr size_t kBlockersMax = 16;

// What the job itself and those that it waits for say; empty where it has its turn. `same_name` is
// the earliest unfinished job of its name and user, if that is another.
std::vector<PendingReason> WhyNotItsTurn(const Job& job, JobId same_name);

// The limits that it would break.
std::vector<PendingReason> WhyAboveLimit(const std::vector<LimitLedger::Reached>& reached);

// Too few slots are free for it, or would ever be.
std::vector<PendingReason> WhyNoSlots(const SlotNeed& need, const SlotSupply& supply,
                                      const std::vector<RunningJob>& running);

PendingReason WhyBehind(JobId head);
PendingReason WhyNoPort(const PortSupply& ports);
PendingReason WhyBackingOff();

// The jobs that it makes leave now, or has made leave before.
PendingReason WhyPreempts(std::vector<JobId> victims);
PendingReason WhyAwaitsLeaving(std::vector<JobId> leaving);
// Beside the reasons for which it goes on waiting.
PendingReason WhyPreempted(JobId by);

}  // namespace dp::core
