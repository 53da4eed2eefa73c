#include "server/convert/convert_waiters.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/convert/convert_call.h"

namespace dp::server {
namespace {

constexpr size_t kRanksNamed = 20;           // in an error; a status travels in a header of 8 KiB
constexpr size_t kRanksListed = 100;         // per waiter; there may be thousands of waiters
constexpr size_t kKeyBytesListed = 1 << 10;  // per waiter; a key may have 1 MiB

v1::Waiter::Kind KindOf(Unmet::What what) {
  switch (what) {
    case Unmet::What::kKey:
      return v1::Waiter::KIND_KEY;
    case Unmet::What::kQueue:
      return v1::Waiter::KIND_QUEUE;
    case Unmet::What::kBarrier:
      return v1::Waiter::KIND_BARRIER;
    case Unmet::What::kChange:
      return v1::Waiter::KIND_CHANGE;
  }
  return v1::Waiter::KIND_UNSPECIFIED;
}

// Names the callers of one job.
struct Naming {
  Naming(const core::Job& job, const View& view, StoreCallers& callers)
      : job(job),
        arrivals(callers.arrivals),
        names(job, callers.clients.Of(job, view)),
        absent(Absent(job, callers.clients.Connected(job, view))) {}

  // A rank without a connection to the store is presumed not to have set the key. If all ranks are
  // connected, the missing rank is unknown.
  static std::set<int> Absent(const core::Job& job, const std::set<int>& connected) {
    std::set<int> absent;
    if (connected.empty()) return absent;
    for (int rank = 0; rank < static_cast<int>(job.ranks.size()); ++rank) {
      const bool ended = job.ranks[rank].exit.has_value();
      if (!ended && !connected.contains(rank)) absent.insert(rank);
    }
    return absent;
  }

  std::set<int> Missing(const Unmet& unmet) const {
    if (unmet.what == Unmet::What::kKey) return absent;
    if (unmet.what != Unmet::What::kBarrier) return {};
    return arrivals.Missing(job, unmet.key, unmet.arrived, unmet.count, names);
  }

  const core::Job& job;
  const BarrierArrivals& arrivals;
  const CallerNames names;
  const std::set<int> absent;  // ranks without a connection to the store
};

void ListMissing(const std::set<int>& ranks, v1::Waiter& waiter) {
  for (const int rank : ranks) {
    if (waiter.missing_ranks_size() == static_cast<int>(kRanksListed)) return;
    waiter.add_missing_ranks(rank);
  }
}

v1::Waiter StoreWaiter(const BlockedCall& call, const std::vector<Unmet>& unmet, const View& view,
                       const Naming& naming) {
  const Unmet& first = unmet.front();
  v1::Waiter waiter;
  waiter.set_kind(KindOf(first.what));
  waiter.set_key(first.key.substr(0, kKeyBytesListed));
  waiter.set_keys(static_cast<int>(unmet.size()));
  waiter.set_who(naming.names.who(call));
  *waiter.mutable_waiting() = ToProto(view.now - call.since);
  waiter.set_arrived(first.arrived);
  waiter.set_count(first.count);
  ListMissing(naming.Missing(first), waiter);
  return waiter;
}

// Each rank that has joined a forming world waits for the others.
void FillRendezvous(const core::Job& job, const View& view, v1::ListWaitersResponse* response) {
  if (job.world.state() != core::WorldState::kForming) return;
  const std::set<int>& missing = job.world.missing();
  for (const int rank : job.world.members()) {
    v1::Waiter& waiter = *response->add_waiters();
    waiter.set_kind(v1::Waiter::KIND_RENDEZVOUS);
    waiter.set_who(absl::StrCat("rank ", rank, " on ", job.ranks.at(rank).worker));
    if (job.placed_at) *waiter.mutable_waiting() = ToProto(view.now - *job.placed_at);
    waiter.set_arrived(static_cast<int64_t>(job.world.members().size()));
    waiter.set_count(job.world.size());
    ListMissing(missing, waiter);
  }
}

std::string NameRanks(const std::set<int>& ranks) {
  std::vector<int> named(ranks.begin(), ranks.end());
  named.resize(std::min(named.size(), kRanksNamed));
  return absl::StrCat(absl::StrJoin(named, ", "),
                      ranks.size() > named.size()
                          ? absl::StrCat(" and ", ranks.size() - named.size(), " more")
                          : std::string());
}

}  // namespace

void FillWaiters(const core::Job& job, const View& view, StoreCallers& callers,
                 v1::ListWaitersResponse* response) {
  std::vector<const BlockedCall*> calls = view.waiters.blocked(job.id);
  std::stable_sort(calls.begin(), calls.end(),
                   [](const auto* a, const auto* b) { return a->since < b->since; });
  const auto store = view.coordinator.store(job.id, job.generation);
  const Naming naming(job, view, callers);
  for (const BlockedCall* call : calls) {
    if (!store.ok()) break;  // the store has just ended, and with it these waits
    const std::vector<Unmet> unmet = (*store)->Missing(call->reads);
    if (!unmet.empty()) *response->add_waiters() = StoreWaiter(*call, unmet, view, naming);
  }
  FillRendezvous(job, view, response);
}

absl::Status StillBlocked(const BlockedCall& call, const KeyValues& store, const View& view,
                          StoreCallers& callers) {
  const std::vector<Unmet> unmet = store.Missing(call.reads);
  std::string message = absl::StrCat("still missing: ", Describe(unmet));
  const Naming naming(*view.coordinator.job(call.job), view, callers);
  for (const Unmet& one : unmet) {
    const std::set<int> missing = naming.Missing(one);
    if (missing.empty()) continue;
    absl::StrAppend(&message, "; rank ", NameRanks(missing), " has not come");
    break;
  }
  return absl::DeadlineExceededError(message);
}

}  // namespace dp::server
