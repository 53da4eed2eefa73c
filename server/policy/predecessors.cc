#include "server/policy/predecessors.h"

#include "server/core/coordinator.h"
#include "server/core/worker_table.h"
#include "server/policy/liveness.h"

namespace dp::core {
namespace {

constexpr char kReplaced[] = "its daemon died and was started again";
constexpr char kSilent[] = "its lease expired, and another daemon registered under its name";

// Null if no other incarnation holds the name.
const Worker* HolderOf(const RegisterWorker& registered, const WorkerTable& workers) {
  if (registered.name.empty()) return nullptr;  // it gets a free name
  const auto id = workers.IdOf(registered.name);
  if (!id.ok()) return nullptr;
  const Worker* holder = workers.Find(*id);
  const bool another = holder->ready() && holder->incarnation != registered.incarnation;
  return another ? holder : nullptr;
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
  const Worker* holder = HolderOf(registered, workers);
  if (holder != nullptr && liveness.lapsed(holder->id, now)) {
    lost.push_back({holder->id, holder->incarnation, kSilent});
  }
  return lost;
}

}  // namespace dp::core
