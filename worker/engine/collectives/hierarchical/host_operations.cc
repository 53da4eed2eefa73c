#include "worker/engine/collectives/hierarchical/host_operations.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "worker/engine/collectives/hierarchical/host_reduce.h"
#include "worker/engine/collectives/hierarchical/host_results.h"

namespace dp::engine {
namespace {

// Up to so many bytes from all peers together, a rank is done sooner if everything travels at once.
constexpr size_t kOneLevelBytes = size_t{256} << 10;

// A broadcast or a gather: the owner of each part has its result already. In a broadcast, the ranks
// of the root's host are the owners.
class HostMove {
 public:
  HostMove(HostRank& self, HostSteps& steps, const Collective& call)
      : self_(self),
        steps_(steps),
        call_(call),
        gathers_(call.shape.kind == CallShape::Kind::kAllGather),
        pieces_(PartsOf(*self.plan, call.shape), 1),
        results_(self, steps, pieces_) {}

  // While results of chunk c travel, the ranks of each host fetch those of chunk c - 1.
  absl::Status Run() {
    std::unique_ptr<Work> passing;
    for (size_t c = 0; c <= pieces_.chunks(); ++c) {
      const bool begins = c < pieces_.chunks();
      if (begins) Stage(c);
      if (passing != nullptr) DP_RETURN_IF_ERROR(passing->Wait());
      DP_RETURN_IF_ERROR(c == 0 ? steps_.MeetEverybody(call_) : steps_.MeetOnHost());
      if (begins) passing = Begin(c);
      if (c > 0 && (gathers_ || !IsRoot())) results_.Fetch(c - 1, call_.output.data());
    }
    return absl::OkStatus();
  }

 private:
  static std::vector<OwnedPart> PartsOf(const HostPlan& plan, const CallShape& shape) {
    const size_t bytes = shape.count * SizeOf(shape.type);
    if (shape.kind == CallShape::Kind::kAllGather) {
      std::vector<OwnedPart> parts;
      for (int r = 0; r < plan.ranks(); ++r)
        parts.push_back({r, {bytes * static_cast<size_t>(r), bytes}});
      return parts;
    }
    return PartsOfRanks(plan.ranks_of(plan.host_of(shape.root)), bytes);
  }

  bool IsRoot() const { return self_.rank == call_.shape.root; }

  // The root's bytes, for the ranks of its host.
  void Stage(size_t c) {
    if (gathers_ || !IsRoot()) return;
    for (size_t part = 0; part < pieces_.parts(); ++part) {
      const Slice piece = pieces_.at(part, c);
      if (piece.count > 0)
        std::memcpy(self_.staging[self_.rank].data(c) + pieces_.place(part),
                    call_.input.data() + piece.begin, piece.count);
    }
  }

  std::unique_ptr<Work> Begin(size_t c) {
    for (size_t part = 0; part < pieces_.parts(); ++part) {
      const Slice piece = pieces_.at(part, c);
      if (pieces_.owner(part) != self_.rank || piece.count == 0) continue;
      const uint8_t* const from =
          gathers_ ? call_.input.data() + (piece.begin - pieces_.at(part, 0).begin)
                   : self_.staging[call_.shape.root].data(c) + pieces_.place(part);
      std::memcpy(results_.place(part, c), from, piece.count);
    }
    return results_.Pass(c);
  }

  HostRank& self_;
  HostSteps& steps_;
  const Collective& call_;
  const bool gathers_;
  const OwnedPieces pieces_;
  const HostResults results_;
};

// The pieces for the ranks of this host, which also has this rank's own.
Collective ExchangeOnHost(const HostRank& self, const Collective& call) {
  Collective local{.shape = call.shape};
  for (const int r : self.beside()) {
    local.sent.push_back(call.sent[r]);
    local.received.push_back(call.received[r]);
  }
  return local;
}

Collective ExchangeBetweenHosts(const HostRank& self, const Collective& call) {
  Collective between = call;
  for (const int r : self.beside()) {
    if (self.local == nullptr) break;
    between.sent[r] = {};
    between.received[r] = {};
  }
  return between;
}

// Both levels at once. The memory is the caller's, so both have ended when this returns.
absl::Status ExchangeOverHosts(HostRank& self, HostSteps& steps, const Collective& call) {
  DP_RETURN_IF_ERROR(steps.MeetEverybody(call));
  auto between = steps.StartBetween(ExchangeBetweenHosts(self, call));
  if (self.local == nullptr) return between->Wait();
  auto local = steps.StartOnHost(ExchangeOnHost(self, call));
  absl::Status on_host = local->Wait();
  if (on_host.ok()) return between->Wait();
  on_host = steps.Explained(on_host);
  self.between->Abort(on_host);
  (void)between->Wait();  // the error on this host came first
  return on_host;
}

}  // namespace

bool IsForOneLevel(const CallShape& shape, int ranks) {
  const size_t bytes = shape.count * SizeOf(shape.type), peers = static_cast<size_t>(ranks - 1);
  switch (shape.kind) {
    case CallShape::Kind::kAllReduce:
    case CallShape::Kind::kReduce:
    case CallShape::Kind::kBroadcast:
    case CallShape::Kind::kAllGather:
      return bytes * peers <= kOneLevelBytes;
    case CallShape::Kind::kReduceScatter:
      return bytes <= kOneLevelBytes;
    case CallShape::Kind::kExchange:
      return false;  // ranks do not know how much the others send
    case CallShape::Kind::kBarrier:
      return true;
  }
  return true;
}

absl::Status RunOverHosts(HostRank& self, HostSteps& steps, const Collective& call) {
  if (Reduces(call.shape.kind)) return ReduceOverHosts(self, steps, call);
  if (call.shape.kind == CallShape::Kind::kExchange) return ExchangeOverHosts(self, steps, call);
  return HostMove(self, steps, call).Run();
}

}  // namespace dp::engine
