#include "worker/engine/collectives/gloo/gloo_group.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "store/prefix_store.h"
#include "worker/engine/collectives/await_connected.h"
#include "worker/engine/collectives/call_watch.h"
#include "worker/engine/collectives/closed_aside.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/gloo/gloo_mesh.h"
#include "worker/engine/collectives/gloo/gloo_reduce.h"
#include "worker/engine/collectives/gloo/gloo_transfers.h"
#include "worker/engine/collectives/gloo/interfaces.h"
#include "worker/engine/collectives/gloo/striped_group.h"
#include "worker/engine/collectives/links/group_links.h"
#include "worker/engine/collectives/operation_queue.h"

namespace dp::engine {
namespace {

class GlooGroup : public Group {
 public:
  // `interfaces`: the list to which the interface of the options belongs.
  GlooGroup(int rank, int size, const GlooOptions& options, std::string interfaces)
      : options_(options),
        interfaces_(std::move(interfaces)),
        mesh_(rank, size, [this] { InterruptTransfers(); }),
        watch_(rank, size, links_, [this] { EndOperation(); }),
        queue_(options.group, [this] { Interrupt(); }, Clock::Steady(), CallWatch::kLookInterval,
               RunBy::kThread, {.current = [this] { return mesh_.calls().current(); }}) {}

  // The links go before the queue and the mesh: their last texts then precede the goodbyes.
  ~GlooGroup() override { queue_.Close(); }

  // The first operation: finds the peers. Its deadline and Abort work as for any other operation.
  std::unique_ptr<Work> Connect(Store& store) {
    return queue_.Push(
        "connect",
        [this, &store] {
          std::vector<int> missing;
          auto stopped = [this] { return Stopped(); };
          absl::Status status = mesh_.Connect(store, options_, interfaces_, stopped, &missing);
          if (!status.ok() && Stopped()) return queue_.StopError("connect", missing);
          if (status.ok()) links_.Open(mesh_.TakeLinks(), watch_.hooks());
          connecting_is_over_ = true;
          return status;
        },
        options_.connect_timeout);
  }

  int rank() const override { return mesh_.rank(); }
  int size() const override { return mesh_.size(); }

  std::unique_ptr<Work> Start(Collective call) override {
    const uint64_t number = ++operations_;
    const std::string name = absl::StrCat(NameOf(call), " ", call.number.value_or(number));
    const auto timeout = call.timeout;
    const auto run = [this, name, number, call = std::move(call)]() -> absl::Status {
      watch_.Called(NoteOf(number, call));
      GlooTransfers transfers(mesh_, [this] { return MustEnd(); });
      const bool done = Run(call, transfers, number, [&] { return Begin(&transfers); });
      End();
      return done ? absl::OkStatus() : Failure(name, transfers);
    };
    return queue_.Push(name, run, timeout);
  }

  std::unique_ptr<Work> Leave() override {
    const uint64_t number = operations_ + 1;
    return queue_.Push("leave", [this, number]() -> absl::Status {
      watch_.Called({.number = number, .leaves = true});
      const bool left = mesh_.Leave([this] { return MustEnd(); });
      End();
      if (left) return absl::OkStatus();
      if (Stopped()) return queue_.StopError("leave", {});
      return watch_.LeaveError();
    });
  }

  std::unique_ptr<Work> Pass(const Message& message) override { return links_.Pass(message); }

  void Abort(const absl::Status& why) override {
    queue_.Abort(why);
    links_.Abort(why);
  }

 private:
  // Called when all lanes are added: from here on the operation can be interrupted. Returns false
  // when the operation must not begin.
  using Ready = std::function<bool()>;

  bool Stopped() const { return queue_.stop_reason().kind != StopReason::Kind::kNone; }
  bool MustEnd() const { return Stopped() || !watch_.difference().ok(); }

  std::vector<int> Peers() const {
    std::vector<int> peers;
    for (int r = 0; r < size(); ++r)
      if (r != rank()) peers.push_back(r);
    return peers;
  }

  // Ranks whose calls disagree get different slots. No rank then receives bytes that were meant for
  // another call, and rank 0 finds out (CallWatch).
  static uint64_t SlotOf(uint64_t number, const CallShape& shape) {
    constexpr uint64_t kNumbers = uint64_t{1} << 20;
    return ((number % kNumbers) << 43) | ((HashOf(shape) >> 22) << 1);  // bit 0: the phase
  }

  bool Run(const Collective& call, GlooTransfers& transfers, uint64_t number, const Ready& ready) {
    const auto slot_of_piece = [&](size_t bytes) {
      CallShape piece = call.shape;
      piece.count = bytes;
      return SlotOf(number, piece);
    };
    if (call.only_meets && call.shape.kind == CallShape::Kind::kExchange)
      return Move(BytesForAll(), transfers, ready, [&](const Transfer& transfer) {
        return slot_of_piece(transfer.sends ? call.sent[transfer.peer].size()
                                            : call.received[transfer.peer].size());
      });
    if (call.only_meets)
      return Move(BytesForAll(), transfers, ready,
                  [&](const Transfer&) { return SlotOf(number, call.shape); });
    if (!Reduces(call.shape.kind))
      return Move(PiecesOf(call), transfers, ready,
                  [&](const Transfer& transfer) { return slot_of_piece(transfer.bytes); });
    return call.input.empty() ||
           GlooReduce(mesh_, transfers, SlotOf(number, call.shape), call, scratch_, ready);
  }

  // The bytes that this rank sends to each rank, and receives from each.
  struct Pieces {
    std::vector<absl::Span<const uint8_t>> sent;
    std::vector<absl::Span<uint8_t>> received;
  };

  Pieces NoPieces() const {
    return {std::vector<absl::Span<const uint8_t>>(size()),
            std::vector<absl::Span<uint8_t>>(size())};
  }

  // A byte from each rank to each, which nobody reads.
  Pieces BytesForAll() {
    Pieces pieces = NoPieces();
    scratch_.resize(std::max(scratch_.size(), 2 * static_cast<size_t>(size())));
    for (int peer : Peers()) {
      pieces.sent[peer] = {scratch_.data() + 2 * peer, 1};
      pieces.received[peer] = {scratch_.data() + 2 * peer + 1, 1};
    }
    return pieces;
  }

  Pieces PiecesOf(const Collective& call) {
    if (call.shape.kind == CallShape::Kind::kExchange) return {call.sent, call.received};
    if (call.shape.kind == CallShape::Kind::kBarrier) return BytesForAll();
    Pieces pieces = NoPieces();
    if (call.shape.kind == CallShape::Kind::kAllGather) {
      const size_t bytes = call.input.size();
      for (int r = 0; r < size(); ++r) {
        pieces.sent[r] = call.input;
        pieces.received[r] = call.output.subspan(r * bytes, bytes);
      }
    } else if (rank() != call.shape.root) {
      pieces.received[call.shape.root] = call.output;
    } else {
      for (int peer : Peers()) pieces.sent[peer] = call.input;
    }
    return pieces;
  }

  // A piece that this rank sends to a peer, or receives from it.
  struct Transfer {
    int peer;
    bool sends;
    size_t bytes;
    int lane;
  };

  bool Move(const Pieces& pieces, GlooTransfers& transfers, const Ready& ready,
            const std::function<uint64_t(const Transfer&)>& slot_of) {
    const absl::Span<const uint8_t> own = pieces.sent[rank()];
    if (!own.empty() && own.data() != pieces.received[rank()].data())
      std::memcpy(pieces.received[rank()].data(), own.data(), own.size());
    std::vector<Transfer> posted;
    for (int peer : Peers()) {
      const auto to_peer = pieces.sent[peer];
      const auto from_peer = pieces.received[peer];
      if (!from_peer.empty())
        posted.push_back({peer, false, from_peer.size(),
                          transfers.AddLane(peer, from_peer.data(), from_peer.size())});
      // Gloo takes memory to be written even for what it only sends.
      if (!to_peer.empty())
        posted.push_back(
            {peer, true, to_peer.size(),
             transfers.AddLane(peer, const_cast<uint8_t*>(to_peer.data()), to_peer.size())});
    }
    if (posted.empty()) return true;
    if (!ready()) return false;
    for (const Transfer& transfer : posted) {
      const uint64_t slot = slot_of(transfer);
      if (!(transfer.sends ? transfers.Send(transfer.lane, slot, 0, transfer.bytes)
                           : transfers.Receive(transfer.lane, slot, 0, transfer.bytes)))
        return false;
    }
    return transfers.WaitAll();
  }

  bool Begin(GlooTransfers* transfers) DP_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      transfers_ = transfers;
    }
    return !MustEnd() && mesh_.DeadPeers().empty();
  }

  void End() DP_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      transfers_ = nullptr;
    }
    watch_.Ended();
  }

  // A peer that found the difference first may be gone already. Its verdict then is here. A dead
  // peer precedes what is left, because its death is why the others are late.
  absl::Status Failure(const std::string& name, GlooTransfers& transfers) {
    const std::vector<int> dead = mesh_.DeadPeers();
    if (!dead.empty() || transfers.failed_peer() >= 0) links_.links()->CatchUp();
    if (!watch_.difference().ok()) return watch_.ErrorOf(name);
    if (!dead.empty()) return EndedBecauseOf(name, dead);
    const StopReason stop = queue_.stop_reason();
    if (stop.kind == StopReason::Kind::kDeadline)
      return queue_.StopError(name, transfers.Laggards());
    if (stop.kind == StopReason::Kind::kAbort) return queue_.StopError(name, {});
    return EndedBecauseOf(name, {transfers.failed_peer()});
  }

  // Peers that ended because of others give way to those. This rank may end next.
  absl::Status EndedBecauseOf(const std::string& name, const std::vector<int>& ended) {
    const std::vector<int> culprits = watch_.Culprits(ended);
    watch_.SayFarewell(culprits);
    return WentAway(name, culprits);
  }

  void InterruptTransfers() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    // Safe under mu_: Gloo holds its buffers' locks for a moment and never calls back.
    if (transfers_ != nullptr) transfers_->Interrupt();
  }

  void Interrupt() {
    if (!Stopped()) return watch_.Look();
    if (!connecting_is_over_) mesh_.Interrupt();
    EndOperation();
  }

  void EndOperation() {
    InterruptTransfers();
    mesh_.InterruptLeave();
  }

  const GlooOptions options_;
  const std::string interfaces_;
  uint64_t operations_ = 0;
  std::vector<uint8_t> scratch_;  // the queue thread's; kept, since fresh pages cost more than sums
  std::atomic<bool> connecting_is_over_ = false;
  Mutex mu_;
  GlooTransfers* transfers_ DP_GUARDED_BY(mu_) = nullptr;  // of the running operation
  GlooMesh mesh_;
  CallWatch watch_;
  OperationQueue queue_;                              // its thread uses the rest
  GroupLinks links_{queue_, options_.group.timeout};  // last: they end first
};

// Before a world size that is a mistake costs time and memory.
absl::Status CheckDescriptors(int size) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || static_cast<rlim_t>(size) <= limit.rlim_cur)
    return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "gloo takes a socket for each of the ", size, " ranks, and this process may have ",
      limit.rlim_cur, " open files; check the world size, or raise ulimit -n"));
}

absl::StatusOr<std::unique_ptr<Group>> ConnectOver(Store& store, int rank, int size,
                                                   const GlooOptions& options,
                                                   const std::string& interfaces,
                                                   std::stop_token stop) {
  auto connecting = std::make_unique<GlooGroup>(rank, size, options, interfaces);
  // Only calls of Gloo can hang, and they do not use the store.
  const std::unique_ptr<Work> connect = connecting->Connect(store);
  auto group = ClosedAside(std::move(connecting), options.group.on_left_behind);
  DP_RETURN_IF_ERROR(AwaitConnected(*group, *connect, std::move(stop)));
  return group;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> ConnectGloo(Store& store, int rank, int size,
                                                   const GlooOptions& options,
                                                   std::stop_token stop) {
  if (rank < 0 || rank >= size)
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of a world of ", size));
  DP_RETURN_IF_ERROR(CheckDescriptors(size));
  const std::vector<std::string> names = InterfaceNames(options.interface);
  DP_RETURN_IF_ERROR(CheckInterfacesExist(names, InterfacesOfThisHost()));
  if (names.empty()) return ConnectOver(store, rank, size, options, "", std::move(stop));
  std::vector<std::unique_ptr<Group>> stripes;
  for (const std::string& name : names) {
    GlooOptions one = options;
    one.interface = name;
    PrefixStore keys(absl::StrCat("gloo/", stripes.size(), "/"), store);
    Store& place = stripes.empty() ? store : keys;
    DP_ASSIGN_OR_RETURN(stripes.emplace_back(),
                        ConnectOver(place, rank, size, one, options.interface, stop));
  }
  return stripes.size() == 1 ? std::move(stripes[0])
                             : MakeStriped(std::move(stripes), options.group);
}

}  // namespace dp::engine
