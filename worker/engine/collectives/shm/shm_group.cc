#include "worker/engine/collectives/shm/shm_group.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/status.h"
#include "worker/engine/collectives/await_connected.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/links/group_links.h"
#include "worker/engine/collectives/operation_queue.h"
#include "worker/engine/collectives/shm/memory_meeting.h"
#include "worker/engine/collectives/shm/rank_ticks.h"
#include "worker/engine/collectives/shm/rank_watch.h"
#include "worker/engine/collectives/shm/shm_operations.h"
#include "worker/engine/collectives/shm/shm_rank.h"
#include "worker/engine/collectives/shm/spin_policy.h"
#include "worker/engine/collectives/shm/usable_cores.h"

namespace dp::engine {
namespace {

constexpr size_t kCacheLine = 64;

// The parts of a group whose ranks have met.
struct Connected {
  Connected(SharedMembership membership, int rank_in, int size)
      : segment(std::move(membership.segment)),
        ticks(segment, rank_in, size, SpinPolicy(UsableCores(), size)),
        rank(segment, ticks, rank_in, size),
        watch(ticks, rank_in, std::move(membership.life_lines)) {}

  // Leaves before the watch ends this rank's life line. Otherwise it would look dead to its peers.
  ~Connected() { ticks.Leave(); }

  SharedSegment segment;
  RankTicks ticks;
  ShmRank rank;  // of the thread that runs an operation
  RankWatch watch;
};

class ShmGroup : public Group {
 public:
  ShmGroup(int rank, int size, const ShmOptions& options)
      : rank_(rank),
        size_(size),
        timeout_(options.group.timeout),
        connect_timeout_(options.connect_timeout),
        names_(options.names),
        queue_(
            options.group, [this] { Interrupt(); }, Clock::Steady(), absl::InfiniteDuration(),
            RunBy::kWaiter) {}

  // The links go before the queue.
  ~ShmGroup() override { queue_.Close(); }

  // The first operation: finds the peers. Its deadline and Abort work as for any other operation.
  std::unique_ptr<Work> Connect(Store& store) {
    return queue_.Push(
        "connect",
        [this, &store]() -> absl::Status {
          std::vector<int> missing;
          auto membership = MeetInMemory(
              store, rank_, size_, [this] { return Stopped(); }, &missing);
          if (membership.ok()) return Become(*std::move(membership));
          return Stopped() ? queue_.StopError("connect", Named(missing)) : membership.status();
        },
        connect_timeout_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  // An operation cannot run before the group is connected, and ends before it is not any more.
  std::unique_ptr<Work> Start(Collective call) override {
    ++operations_;
    const std::string name = absl::StrCat(NameOf(call), " ", call.number.value_or(operations_));
    const auto timeout = call.timeout;
    const auto run = [this, name, call = std::move(call)]() -> absl::Status {
      connected_->rank.SetLate(
          [&](const std::vector<int>& behind) { return Failure(name, behind); });
      const absl::Status status = RunOverShm(connected_->rank, call);
      if (!absl::IsInvalidArgument(status)) return status;
      return absl::InvalidArgumentError(absl::StrCat(name, ": ", status.message()));
    };
    return queue_.Push(name, run, timeout);
  }

  // Only after Connect has ended.
  std::vector<uint8_t*> Heaps() const {
    std::vector<uint8_t*> heaps;
    for (int r = 0; r < size_; ++r) heaps.push_back(connected_->segment.heap(r));
    return heaps;
  }

  // Only after Connect has ended. Never gives memory back before the group ends.
  absl::Span<uint8_t> Allocate(size_t bytes) override {
    const size_t begin = heap_used_, rounded = (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
    if (bytes > kHeapBytes || rounded > kHeapBytes - begin) return Group::Allocate(bytes);
    heap_used_ += rounded;
    return {connected_->segment.heap(rank_) + begin, bytes};
  }

  std::unique_ptr<Work> Leave() override {
    return queue_.Push("leave", [this]() -> absl::Status {
      connected_->ticks.Leave();
      std::vector<int> here;
      connected_->ticks.AwaitRing([&] {
        here = connected_->watch.PeersHere();
        return here.empty() || Stopped();
      });
      return here.empty() ? absl::OkStatus() : queue_.StopError("leave", Named(here));
    });
  }

  std::unique_ptr<Work> Pass(const Message& message) override { return links_.Pass(message); }

  void Abort(const absl::Status& why) override {
    queue_.Abort(why);
    links_.Abort(why);
  }

 private:
  bool Stopped() const { return queue_.stop_reason().kind != StopReason::Kind::kNone; }

  absl::Status Become(SharedMembership membership) DP_EXCLUDES(mu_) {
    links_.Open(std::move(membership.links));
    auto connected = std::make_unique<Connected>(std::move(membership), rank_, size_);
    MutexLock lock(mu_);
    connected_ = std::move(connected);
    interruptible_ = &connected_->ticks;
    return absl::OkStatus();
  }

  // A dead peer takes precedence: its death is why the others are late.
  absl::Status Failure(const std::string& name, const std::vector<int>& behind) const {
    if (std::vector<int> dead = connected_->watch.DeadPeers(); !dead.empty())
      return WentAway(name, Named(std::move(dead)));
    const StopReason stop = queue_.stop_reason();
    if (stop.kind == StopReason::Kind::kDeadline) return queue_.StopError(name, Named(behind));
    if (stop.kind == StopReason::Kind::kAbort) return queue_.StopError(name, {});
    std::vector<int> left;
    for (const int r : behind)
      if (connected_->ticks.HasLeft(r)) left.push_back(r);
    return WentAway(name, Named(std::move(left)));
  }

  std::vector<int> Named(std::vector<int> ranks) const {
    if (names_.empty()) return ranks;
    for (int& rank : ranks) rank = names_[rank];
    return ranks;
  }

  // The queue may wake a group between its operations, and for no reason.
  void Interrupt() DP_EXCLUDES(mu_) {
    if (!Stopped()) return;
    MutexLock lock(mu_);
    if (interruptible_ != nullptr) interruptible_->Interrupt();
  }

  const int rank_;
  const int size_;
  const absl::Duration timeout_;
  const absl::Duration connect_timeout_;
  const std::vector<int> names_;
  uint64_t operations_ = 0;
  size_t heap_used_ = 0;
  std::unique_ptr<Connected> connected_;  // set by the first operation
  Mutex mu_;
  RankTicks* interruptible_ DP_GUARDED_BY(mu_) = nullptr;  // of connected_
  OperationQueue queue_;                                   // its thread uses the rest
  GroupLinks links_{queue_, timeout_};                     // last: they end first
};

}  // namespace

absl::StatusOr<SharedRanks> ConnectShared(Store& store, int rank, int size,
                                          const ShmOptions& options, std::stop_token stop) {
  if (rank < 0 || rank >= size)
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of a world of ", size));
  if (size > kSharingRanksMax)
    return absl::FailedPreconditionError(absl::StrCat("the ranks cannot share memory: ", size,
                                                      " ranks, ", kSharingRanksMax, " at most"));
  auto group = std::make_unique<ShmGroup>(rank, size, options);
  const std::unique_ptr<Work> connect = group->Connect(store);
  DP_RETURN_IF_ERROR(AwaitConnected(*group, *connect, std::move(stop)));
  std::vector<uint8_t*> heaps = group->Heaps();
  return SharedRanks{std::move(group), std::move(heaps)};
}

absl::StatusOr<std::unique_ptr<Group>> ConnectShm(Store& store, int rank, int size,
                                                  const ShmOptions& options, std::stop_token stop) {
  DP_ASSIGN_OR_RETURN(SharedRanks ranks,
                      ConnectShared(store, rank, size, options, std::move(stop)));
  return std::move(ranks.group);
}

}  // namespace dp::engine
