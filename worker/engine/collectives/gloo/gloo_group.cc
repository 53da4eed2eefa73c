#include "worker/engine/collectives/gloo/gloo_group.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/status.h"
#include "worker/engine/collectives/await_connected.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/gloo/gloo_all_reduce.h"
#include "worker/engine/collectives/gloo/gloo_mesh.h"
#include "worker/engine/collectives/gloo/gloo_transfers.h"
#include "worker/engine/collectives/operation_queue.h"

namespace dp::engine {
namespace {

class GlooGroup : public Group {
 public:
  GlooGroup(int rank, int size, const GlooOptions& options)
      : options_(options),
        mesh_(rank, size, [this] { InterruptTransfers(); }),
        queue_(options.group, [this] { Interrupt(); }) {}

  // The first operation: finds the peers. Its deadline and Abort work as for any other operation.
  std::unique_ptr<Work> Connect(Store& store) {
    return queue_.Push(
        "connect",
        [this, &store] {
          std::vector<int> missing;
          auto stopped = [this] { return Stopped(); };
          absl::Status status = mesh_.Connect(store, options_, stopped, &missing);
          if (!status.ok() && Stopped()) return queue_.StopError("connect", missing);
          connecting_is_over_ = true;
          return status;
        },
        options_.connect_timeout);
  }

  int rank() const override { return mesh_.rank(); }
  int size() const override { return mesh_.size(); }

  std::unique_ptr<Work> AllReduce(absl::Span<float> data, ReduceOp op) override {
    return Push(Kind::kAllReduce, static_cast<uint64_t>(op), data.size() * sizeof(float),
                [this, data, op](GlooTransfers& transfers, uint64_t slot, const Ready& ready) {
                  return OrderedAllReduce(mesh_, transfers, slot, data, op, scratch_, ready);
                });
  }

  std::unique_ptr<Work> Broadcast(absl::Span<uint8_t> data, int root) override {
    DP_CHECK(root >= 0 && root < size());
    return Push(Kind::kBroadcast, static_cast<uint64_t>(root), data.size(),
                [this, data, root](GlooTransfers& transfers, uint64_t slot, const Ready& ready) {
                  std::vector<int> peers{root};
                  if (rank() == root) peers = Peers();
                  for (int peer : peers) transfers.AddLane(peer, data.data(), data.size());
                  if (!ready()) return false;
                  for (int lane = 0; lane < static_cast<int>(peers.size()); ++lane)
                    if (!(rank() == root ? transfers.Send(lane, slot, 0, data.size())
                                         : transfers.Receive(lane, slot, 0, data.size())))
                      return false;
                  return transfers.WaitAll();
                });
  }

  std::unique_ptr<Work> AllGather(absl::Span<const uint8_t> data,
                                  absl::Span<uint8_t> gathered) override {
    DP_CHECK(gathered.size() == data.size() * static_cast<size_t>(size()));
    return Push(
        Kind::kAllGather, 0, data.size(),
        [this, data, gathered](GlooTransfers& transfers, uint64_t slot, const Ready& ready) {
          const size_t bytes = data.size();
          std::memcpy(gathered.data() + rank() * bytes, data.data(), bytes);
          const std::vector<int> peers = Peers();
          for (int peer : peers) {
            transfers.AddLane(peer, gathered.data() + peer * bytes, bytes);
            transfers.AddLane(peer, gathered.data() + rank() * bytes, bytes);
          }
          if (!ready()) return false;
          for (int i = 0; i < static_cast<int>(peers.size()); ++i)
            if (!transfers.Receive(2 * i, slot, 0, bytes) ||
                !transfers.Send(2 * i + 1, slot, 0, bytes))
              return false;
          return transfers.WaitAll();
        });
  }

  std::unique_ptr<Work> Leave() override {
    return queue_.Push("leave", [this]() -> absl::Status {
      if (mesh_.Leave([this] { return Stopped(); })) return absl::OkStatus();
      return queue_.StopError("leave", {});
    });
  }

  void Abort(const absl::Status& why) override { queue_.Abort(why); }

 private:
  // Called when all lanes are added: from here on the operation can be interrupted. Returns false
  // when the operation must not begin.
  using Ready = std::function<bool()>;

  bool Stopped() const { return queue_.stop_reason().kind != StopReason::Kind::kNone; }

  std::vector<int> Peers() const {
    std::vector<int> peers;
    for (int r = 0; r < size(); ++r)
      if (r != rank()) peers.push_back(r);
    return peers;
  }

  enum class Kind : uint64_t { kAllReduce, kBroadcast, kAllGather };
  static absl::string_view NameOf(Kind kind) {
    if (kind == Kind::kAllReduce) return "all_reduce";
    return kind == Kind::kBroadcast ? "broadcast" : "all_gather";
  }

  // Ranks whose calls disagree get different slots. No rank then receives bytes that were meant for
  // another call, and the deadline names the ranks.
  static uint64_t SlotOf(uint64_t number, Kind kind, uint64_t argument, uint64_t bytes) {
    uint64_t mix = bytes;
    mix = NextRandom(mix) ^ argument;
    mix = NextRandom(mix) ^ static_cast<uint64_t>(kind);
    constexpr uint64_t kNumbers = uint64_t{1} << 20;
    return ((number % kNumbers) << 43) | ((NextRandom(mix) >> 22) << 1);  // bit 0: the phase
  }

  template <typename Transfer>
  std::unique_ptr<Work> Push(Kind kind, uint64_t argument, size_t bytes, Transfer transfer) {
    const uint64_t number = ++operations_;
    const uint64_t slot = SlotOf(number, kind, argument, bytes);
    const std::string name = absl::StrCat(NameOf(kind), " ", number);
    return queue_.Push(name, [this, name, slot, bytes, transfer]() -> absl::Status {
      if (bytes == 0) return absl::OkStatus();
      GlooTransfers transfers(mesh_, [this] { return Stopped(); });
      const bool done = transfer(transfers, slot, [&] { return Begin(&transfers); });
      End();
      return done ? absl::OkStatus() : Failure(name, transfers);
    });
  }

  bool Begin(GlooTransfers* transfers) DP_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      transfers_ = transfers;
    }
    return !Stopped() && mesh_.DeadPeers().empty();
  }

  void End() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    transfers_ = nullptr;
  }

  // A dead peer takes precedence: its death is why the others are late.
  absl::Status Failure(const std::string& name, GlooTransfers& transfers) {
    if (std::vector<int> dead = mesh_.DeadPeers(); !dead.empty()) return WentAway(name, dead);
    const StopReason stop = queue_.stop_reason();
    if (stop.kind == StopReason::Kind::kDeadline)
      return queue_.StopError(name, transfers.Laggards());
    if (stop.kind == StopReason::Kind::kAbort) return queue_.StopError(name, {});
    return WentAway(name, {transfers.failed_peer()});
  }

  void InterruptTransfers() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    // Safe under mu_: Gloo holds its buffers' locks for a moment and never calls back.
    if (transfers_ != nullptr) transfers_->Interrupt();
  }

  void Interrupt() {
    if (!connecting_is_over_) mesh_.Interrupt();
    InterruptTransfers();
    mesh_.InterruptLeave();
  }

  const GlooOptions options_;
  uint64_t operations_ = 0;
  std::vector<float> scratch_;  // the queue thread's; kept, since fresh pages cost more than sums
  std::atomic<bool> connecting_is_over_ = false;
  Mutex mu_;
  GlooTransfers* transfers_ DP_GUARDED_BY(mu_) = nullptr;  // of the running operation
  GlooMesh mesh_;
  OperationQueue queue_;  // last: its thread uses the rest
};

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> ConnectGloo(Store& store, int rank, int size,
                                                   const GlooOptions& options,
                                                   std::stop_token stop) {
  if (rank < 0 || rank >= size)
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of a world of ", size));
  auto group = std::make_unique<GlooGroup>(rank, size, options);
  const std::unique_ptr<Work> connect = group->Connect(store);
  DP_RETURN_IF_ERROR(AwaitConnected(*group, *connect, std::move(stop)));
  return group;
}

}  // namespace dp::engine
