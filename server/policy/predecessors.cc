#include "server/policy/predecessors.h"

#include "server/core/coordinator.h"
#include "server/core/worker_table.h"
#include "server/policy/liveness.h"

namespace dp::core {
namespace {

constexpr char kReplaced[] = "its daemon died and was started again";
constexpr char kSilent[] = "its lease expired, and another daemon came under its name";

// The ready worker of the name, if silent beyond its lease; else null. Without a name, a daemon
// gets a free one.
const Worker* SilentHolderOf(const std::string& name, const WorkerTable& workers,
                             const Liveness& liveness, absl::Time now) {
  if (name.empty()) return nullptr;
  const auto id = workers.IdOf(name);
  if (!id.ok()) return nullptr;
  const Worker* holder = workers.Find(*id);
  return holder->ready() && liveness.lapsed(holder->id, now) ? holder : nullptr;
}

}  // namespace

std::vector<LoseWorker> PredecessorsOf(const RegisterWorker& registered,
                                       const Coordinator& coordinator, const Liveness& liveness,
                                       absl::Time now) {
  const WorkerTable& workers = coordinator.state().workers;
  std::vector<LoseWorker> lost;
  for (const Incarnation earlier : registered.replaces) {
    const Worker* worker = workers.FindLife(earlier);
    if (worker == nullptr || earlier == registered.incarnation) continue;
    lost.push_back({worker->id, earlier, kReplaced});
  }
  const Worker* holder = SilentHolderOf(registered.name, workers, liveness, now);
  if (holder != nullptr && holder->incarnation != registered.incarnation) {
    lost.push_back({holder->id, holder->incarnation, kSilent});
  }
  return lost;
}

std::optional<LoseWorker> PredecessorOf(const UseToken& joins, const Coordinator& coordinator,
                                        const Liveness& liveness, absl::Time now) {
  const State& state = coordinator.state();
  if (joins.identity.role != security::Role::kWorker ||
      !state.access.CheckToken(joins.identity, joins.made_at).ok()) {
    return std::nullopt;
  }
  const Worker* holder = SilentHolderOf(joins.identity.name, state.workers, liveness, now);
  if (holder == nullptr) return std::nullopt;
  return LoseWorker{holder->id, holder->incarnation, kSilent};
}

}  // namespace dp::core
