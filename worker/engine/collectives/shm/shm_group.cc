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
#include "worker/engine/collectives/operation_queue.h"
#include "worker/engine/collectives/shm/memory_meeting.h"
#include "worker/engine/collectives/shm/rank_ticks.h"
#include "worker/engine/collectives/shm/rank_watch.h"
#include "worker/engine/collectives/shm/shm_operations.h"
#include "worker/engine/collectives/shm/spin_policy.h"
#include "worker/engine/collectives/shm/usable_cores.h"

namespace dp::engine {
namespace {

// The parts of a group whose ranks have met.
struct Connected {
  Connected(SharedMembership membership, int rank, int size)
      : segment(std::move(membership.segment)),
        ticks(segment, rank, size, SpinPolicy(UsableCores(), size)),
        operations(segment, ticks, rank, size),
        watch(ticks, rank, std::move(membership.life_lines)) {}

  // Leaves before the watch ends this rank's life line. Otherwise it would look dead to its peers.
  ~Connected() { ticks.Leave(); }

  SharedSegment segment;
  RankTicks ticks;
  ShmOperations operations;  // the queue thread's
  RankWatch watch;
};

class ShmGroup : public Group {
 public:
  ShmGroup(int rank, int size, const ShmOptions& options)
      : rank_(rank),
        size_(size),
        connect_timeout_(options.connect_timeout),
        queue_(options.group, [this] { Interrupt(); }) {}

  // The first operation: finds the peers. Its deadline and Abort work as for any other operation.
  std::unique_ptr<Work> Connect(Store& store) {
    return queue_.Push(
        "connect",
        [this, &store]() -> absl::Status {
          std::vector<int> missing;
          auto membership = MeetInMemory(
              store, rank_, size_, [this] { return Stopped(); }, &missing);
          if (membership.ok()) return Become(*std::move(membership));
          return Stopped() ? queue_.StopError("connect", missing) : membership.status();
        },
        connect_timeout_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Work> AllReduce(absl::Span<float> data, ReduceOp op) override {
    return Push("all_reduce", [data, op](ShmOperations& operations, const Late& late) {
      return operations.AllReduce(data, op, late);
    });
  }

  std::unique_ptr<Work> Broadcast(absl::Span<uint8_t> data, int root) override {
    DP_CHECK(root >= 0 && root < size_);
    return Push("broadcast", [data, root](ShmOperations& operations, const Late& late) {
      return operations.Broadcast(data, root, late);
    });
  }

  std::unique_ptr<Work> AllGather(absl::Span<const uint8_t> data,
                                  absl::Span<uint8_t> gathered) override {
    DP_CHECK(gathered.size() == data.size() * static_cast<size_t>(size_));
    return Push("all_gather", [data, gathered](ShmOperations& operations, const Late& late) {
      return operations.AllGather(data, gathered, late);
    });
  }

  std::unique_ptr<Work> Leave() override {
    return queue_.Push("leave", [this]() -> absl::Status {
      connected_->ticks.Leave();
      std::vector<int> here;
      connected_->ticks.AwaitRing([&] {
        here = connected_->watch.PeersHere();
        return here.empty() || Stopped();
      });
      return here.empty() ? absl::OkStatus() : queue_.StopError("leave", here);
    });
  }

  void Abort(const absl::Status& why) override { queue_.Abort(why); }

 private:
  using Late = ShmOperations::Late;

  bool Stopped() const { return queue_.stop_reason().kind != StopReason::Kind::kNone; }

  absl::Status Become(SharedMembership membership) DP_EXCLUDES(mu_) {
    auto connected = std::make_unique<Connected>(std::move(membership), rank_, size_);
    MutexLock lock(mu_);
    connected_ = std::move(connected);
    interruptible_ = &connected_->ticks;
    return absl::OkStatus();
  }

  // An operation cannot run before the group is connected, and ends before it is not any more.
  template <typename Operation>
  std::unique_ptr<Work> Push(absl::string_view kind, Operation operation) {
    const std::string name = absl::StrCat(kind, " ", ++operations_);
    return queue_.Push(name, [this, name, operation]() -> absl::Status {
      const auto late = [&](const std::vector<int>& behind) { return Failure(name, behind); };
      const absl::Status status = operation(connected_->operations, late);
      if (!absl::IsInvalidArgument(status)) return status;
      return absl::InvalidArgumentError(absl::StrCat(name, ": ", status.message()));
    });
  }

  // A dead peer takes precedence: its death is why the others are late.
  absl::Status Failure(const std::string& name, const std::vector<int>& behind) const {
    if (std::vector<int> dead = connected_->watch.DeadPeers(); !dead.empty())
      return WentAway(name, dead);
    const StopReason stop = queue_.stop_reason();
    if (stop.kind == StopReason::Kind::kDeadline) return queue_.StopError(name, behind);
    if (stop.kind == StopReason::Kind::kAbort) return queue_.StopError(name, {});
    std::vector<int> left;
    for (const int r : behind)
      if (connected_->ticks.HasLeft(r)) left.push_back(r);
    return WentAway(name, left);
  }

  // The queue may wake a group between its operations, and for no reason.
  void Interrupt() DP_EXCLUDES(mu_) {
    if (!Stopped()) return;
    MutexLock lock(mu_);
    if (interruptible_ != nullptr) interruptible_->Interrupt();
  }

  const int rank_;
  const int size_;
  const absl::Duration connect_timeout_;
  int64_t operations_ = 0;
  std::unique_ptr<Connected> connected_;  // set by the queue's thread, once
  Mutex mu_;
  RankTicks* interruptible_ DP_GUARDED_BY(mu_) = nullptr;  // of connected_
  OperationQueue queue_;                                   // last: its thread uses the rest
};

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> ConnectShm(Store& store, int rank, int size,
                                                  const ShmOptions& options, std::stop_token stop) {
  if (rank < 0 || rank >= size)
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of a world of ", size));
  if (size > kSharingRanksMax)
    return absl::FailedPreconditionError(absl::StrCat("the ranks cannot share memory: ", size,
                                                      " ranks, ", kSharingRanksMax, " at most"));
  auto group = std::make_unique<ShmGroup>(rank, size, options);
  const std::unique_ptr<Work> connect = group->Connect(store);
  DP_RETURN_IF_ERROR(AwaitConnected(*group, *connect, std::move(stop)));
  return group;
}

}  // namespace dp::engine
