// The commands about workers.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "server/core/coordinator.h"
#include "server/core/job_lifecycle.h"

namespace dp::core {
namespace {

// A line for people.
constexpr size_t kDrainReasonBytesMax = 1 << 10;

}  // namespace

absl::StatusOr<Reply> Coordinator::On(const RegisterWorker& command, absl::Time at) {
  DP_ASSIGN_OR_RETURN(const WorkerTable::Registered registered,
                      state_.workers.Register(command, at));
  if (registered.changed) {
    Touch({Topic::Kind::kAssignment, registered.id.value()});
    Touch({Topic::Kind::kWorkers});
    Tell(*worker(registered.id), "registered");
    ForgetWorkers();
  }
  return Reply(registered.id);
}

absl::StatusOr<Reply> Coordinator::On(const LoseWorker& command, absl::Time at) {
  const Worker* worker = state_.workers.Find(command.worker);
  if (worker == nullptr) {
    return absl::NotFoundError(absl::StrCat("worker ", command.worker.ToString(), " is not known"));
  }
  // The verdict is about an incarnation that is gone already.
  if (!worker->ready() || worker->incarnation != command.incarnation) return Reply();
  // Nobody misses a worker that has announced its end and has no rank left.
  const bool left = worker->leaving && worker->jobs().empty();
  Tell(*worker, left ? "left" : "lost", left ? "" : command.reason);
  LoseRanks(state_.workers.Lose(command.worker, command.reason, at), command, at);
  Touch({Topic::Kind::kAssignment, command.worker.value()});
  Touch({Topic::Kind::kWorkers});
  ForgetWorkers();
  return Reply();
}

void Coordinator::LoseRanks(const std::vector<RankKey>& ranks, const LoseWorker& command,
                            absl::Time at) {
  for (const RankKey& rank : ranks) {
    Job* job = state_.jobs.Find(rank.job);
    DP_CHECK(job != nullptr);
    const Sight before = See(*job);
    const bool takes_blame = command.version >= 2;
    if (RankLost(*job, rank.rank, command.reason, takes_blame, at)) Moved(*job, before);
  }
}

absl::StatusOr<Reply> Coordinator::On(const LeaveWorker& command, absl::Time) {
  DP_RETURN_IF_ERROR(state_.workers.Check(command.worker, command.incarnation));
  if (state_.workers.Leave(command.worker)) {
    Touch({Topic::Kind::kWorkers});
    Tell(*worker(command.worker), "leaving");
  }
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const ReportSlots& command, absl::Time) {
  DP_RETURN_IF_ERROR(state_.workers.Check(command.worker, command.incarnation));
  const Worker& reporter = *worker(command.worker);
  const std::map<int, std::string> before = reporter.unhealthy;
  DP_ASSIGN_OR_RETURN(const bool news, state_.workers.SetUnhealthy(command));
  if (!news) return Reply();
  Touch({Topic::Kind::kWorkers});
  for (const auto& [slot, reason] : command.unhealthy) {
    if (before.contains(slot)) continue;
    Tell(reporter, "slot-unhealthy", absl::StrCat("slot ", slot, ": ", reason));
  }
  for (const auto& [slot, reason] : before) {
    if (!command.unhealthy.contains(slot)) {
      Tell(reporter, "slot-healthy", absl::StrCat("slot ", slot));
    }
  }
  return Reply();
}

absl::StatusOr<Reply> Coordinator::On(const DrainWorker& command, absl::Time at) {
  if (command.reason.empty() || command.reason.size() > kDrainReasonBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the reason of a drain has ", command.reason.size(),
                     " bytes; give one of 1 to ", kDrainReasonBytesMax));
  }
  DP_ASSIGN_OR_RETURN(const WorkerId id, state_.workers.IdOf(command.worker));
  if (!state_.workers.SetDrain(id, {command.reason, command.hand_over, at})) return Reply();
  Touch({Topic::Kind::kWorkers});
  Tell(*worker(id), "drained", command.reason);
  return Reply(id);
}

absl::StatusOr<Reply> Coordinator::On(const UndrainWorker& command, absl::Time) {
  DP_ASSIGN_OR_RETURN(const WorkerId id, state_.workers.IdOf(command.worker));
  const std::optional<Drain>& drain = worker(id)->drain;
  if (drain && !command.reason.empty() && drain->reason != command.reason) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", command.worker, " is drained for another reason: ", drain->reason,
                     "; the drain that was to end had the reason: ", command.reason));
  }
  if (!state_.workers.EndDrain(id)) return Reply();
  Touch({Topic::Kind::kWorkers});
  Tell(*worker(id), "undrained");
  return Reply(id);
}

}  // namespace dp::core
