#include "worker/engine/collectives/gloo/striped_group.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/operation_queue.h"
#include "worker/engine/collectives/reduce/ordered_reduce.h"

namespace dp::engine {
namespace {

// Shares below this size do not repay the second operation.
constexpr size_t kShareBytesMin = size_t{256} << 10;

// The part of a call that one of `stripes` groups carries. Reductions work on each element by
// itself, so shares of them are reductions too.
class Shares {
 public:
  Shares(const Collective& call, size_t stripes) : call_(call), stripes_(stripes) {}

  // Ranks know the size of each other's data, except in exchanges, where two ranks know the size of
  // the piece between them.
  bool splits() const {
    const CallShape& shape = call_.shape;
    if (call_.only_meets || shape.kind == CallShape::Kind::kReduceScatter) return false;
    if (shape.kind == CallShape::Kind::kExchange) return true;
    return IsLarge(shape.count * SizeOf(shape.type));
  }

  Collective at(int stripe) const {
    Collective share = call_;
    switch (call_.shape.kind) {
      case CallShape::Kind::kAllReduce:
      case CallShape::Kind::kReduce:
      case CallShape::Kind::kBroadcast: {
        const Slice elements = SliceOf(call_.shape.count, stripe, static_cast<int>(stripes_));
        const size_t width = SizeOf(call_.shape.type);
        share.shape.count = elements.count;
        share.input = call_.input.subspan(elements.begin * width, elements.count * width);
        share.output = call_.output.subspan(elements.begin * width, elements.count * width);
        return share;
      }
      case CallShape::Kind::kAllGather:
        return ShareOfGather(stripe);
      case CallShape::Kind::kExchange:
        for (auto& piece : share.sent) piece = PartOf(piece, stripe);
        for (auto& piece : share.received) piece = PartOf(piece, stripe);
        return share;
      case CallShape::Kind::kReduceScatter:
      case CallShape::Kind::kBarrier:
        break;
    }
    DP_CHECK(false);
  }

 private:
  bool IsLarge(size_t bytes) const { return bytes >= kShareBytesMin * stripes_; }

  // An exchange, because the parts of what is gathered do not lie side by side.
  Collective ShareOfGather(int stripe) const {
    Collective share = call_;
    share.shape = {.kind = CallShape::Kind::kExchange, .type = call_.shape.type};
    share.step_of = NameOf(call_);
    const size_t bytes = call_.input.size(), ranks = call_.output.size() / bytes;
    share.sent.assign(ranks, PartOf(call_.input, stripe));
    for (size_t r = 0; r < ranks; ++r)
      share.received.push_back(PartOf(call_.output.subspan(r * bytes, bytes), stripe));
    return share;
  }

  // Small pieces travel whole.
  template <typename Byte>
  absl::Span<Byte> PartOf(absl::Span<Byte> piece, int stripe) const {
    if (!IsLarge(piece.size())) return stripe == 0 ? piece : absl::Span<Byte>();
    const Slice part = SliceOf(piece.size(), stripe, static_cast<int>(stripes_));
    return piece.subspan(part.begin, part.count);
  }

  const Collective& call_;
  const size_t stripes_;
};

class StripedGroup : public Group {
 public:
  StripedGroup(std::vector<std::unique_ptr<Group>> stripes, const GroupOptions& options)
      : timeout_(options.timeout),
        stripes_(std::move(stripes)),
        queue_(options, [this] { PassOnAbort(); }) {}

  int rank() const override { return stripes_[0]->rank(); }
  int size() const override { return stripes_[0]->size(); }

  std::unique_ptr<Work> Start(Collective call) override {
    call.number = call.number.value_or(++operations_);
    const absl::Duration timeout = call.timeout.value_or(timeout_);
    const absl::Time deadline = Clock::Steady().Now() + timeout;
    const std::string name = absl::StrCat(NameOf(call), " ", *call.number);
    const uint64_t turn = turns_++;
    const auto run = [this, name, turn, timeout, deadline, call = std::move(call)]() mutable {
      call.timeout = deadline - Clock::Steady().Now();
      return Outcome(Run(call, turn), name, timeout);
    };
    return queue_.Push(name, run, timeout);
  }

  std::unique_ptr<Work> Pass(const Message& message) override { return stripes_[0]->Pass(message); }

  std::unique_ptr<Work> Leave() override {
    return queue_.Push("leave", [this] {
      std::vector<std::unique_ptr<Work>> leaving;
      for (const auto& stripe : stripes_) leaving.push_back(stripe->Leave());
      return Outcome(WaitForAll(leaving), "leave", timeout_);
    });
  }

  void Abort(const absl::Status& why) override { queue_.Abort(why); }

 private:
  absl::Status Run(const Collective& call, uint64_t turn) {
    const Shares shares(call, stripes_.size());
    if (!shares.splits()) return stripes_[turn % stripes_.size()]->Start(call)->Wait();
    std::vector<std::unique_ptr<Work>> works;
    for (size_t s = 0; s < stripes_.size(); ++s)
      works.push_back(stripes_[s]->Start(shares.at(static_cast<int>(s))));
    return WaitForAll(works);
  }

  // The memory is the caller's, so all have ended when this returns. The first error ends the
  // others.
  absl::Status WaitForAll(const std::vector<std::unique_ptr<Work>>& works) {
    absl::Status first;
    for (const auto& work : works) {
      const absl::Status status = work->Wait();
      if (status.ok() || !first.ok()) continue;
      first = status;
      for (const auto& stripe : stripes_) stripe->Abort(first);
    }
    return first;
  }

  // The groups below do not know the operation's time limit, nor why it was aborted.
  absl::Status Outcome(const absl::Status& status, const std::string& name,
                       absl::Duration timeout) {
    if (status.ok()) return status;
    if (queue_.stop_reason().kind == StopReason::Kind::kAbort) return queue_.StopError(name, {});
    if (absl::IsDeadlineExceeded(status)) return DidNotArrive(name, MissingRanks(status), timeout);
    return status;
  }

  // Deadlines need no wake: the operations below have the same ones.
  void PassOnAbort() {
    const StopReason stop = queue_.stop_reason();
    if (stop.kind != StopReason::Kind::kAbort) return;
    for (const auto& stripe : stripes_) stripe->Abort(stop.why);
  }

  const absl::Duration timeout_;
  uint64_t operations_ = 0;
  uint64_t turns_ = 0;
  const std::vector<std::unique_ptr<Group>> stripes_;
  OperationQueue queue_;  // last: its thread uses the rest
};

}  // namespace

std::unique_ptr<Group> MakeStriped(std::vector<std::unique_ptr<Group>> stripes,
                                   const GroupOptions& options) {
  DP_CHECK(!stripes.empty());
  return std::make_unique<StripedGroup>(std::move(stripes), options);
}

}  // namespace dp::engine
