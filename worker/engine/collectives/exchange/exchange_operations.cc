#include "worker/engine/collectives/exchange/exchange_operations.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "worker/engine/collectives/reduce/ordered_reduce.h"

namespace dp::engine {
namespace {

// Up to this many bytes from all peers together, every rank gets everything and reduces all of it.
// One exchange then replaces two.
constexpr size_t kWholeFromPeers = size_t{256} << 10;
// A rank reduces so many bytes of each peer at a time, which bounds its scratch memory.
constexpr size_t kReducedBytes = size_t{1} << 20;

class ExchangedCall {
 public:
  ExchangedCall(Exchanger& exchanger, int rank, int size, const Collective& call,
                std::vector<uint8_t>& scratch)
      : exchanger_(exchanger),
        rank_(static_cast<size_t>(rank)),
        size_(static_cast<size_t>(size)),
        call_(call),
        width_(SizeOf(call.shape.type)),
        scratch_(scratch) {}

  absl::Status Run() {
    switch (call_.shape.kind) {
      case CallShape::Kind::kAllReduce:
        return AllReduce();
      case CallShape::Kind::kReduce:
      case CallShape::Kind::kReduceScatter:
        return ReduceForOwners();
      case CallShape::Kind::kBroadcast:
        return Broadcast();
      case CallShape::Kind::kAllGather:
        return AllGather();
      case CallShape::Kind::kExchange:
        Keep(call_.received[rank_], call_.sent[rank_]);
        return Move(call_.sent, call_.received);
      case CallShape::Kind::kBarrier:
        scratch_.resize(std::max(scratch_.size(), size_ + 1));
        return Move(Exchanger::Sent(size_, {scratch_.data() + size_, 1}), PlacesInScratch(1));
    }
    return absl::InternalError("an operation of no kind");
  }

 private:
  static void Keep(absl::Span<uint8_t> to, absl::Span<const uint8_t> from) {
    if (!from.empty() && to.data() != from.data()) std::memcpy(to.data(), from.data(), from.size());
  }

  // Without this rank's own piece.
  absl::Status Move(Exchanger::Sent sent, Exchanger::Received received) {
    sent[rank_] = {};
    received[rank_] = {};
    return exchanger_.Exchange(sent, received);
  }

  Exchanger::Received PlacesInScratch(size_t bytes) {
    scratch_.resize(std::max(scratch_.size(), bytes * size_));
    Exchanger::Received places;
    for (size_t r = 0; r < size_; ++r) places.push_back({scratch_.data() + r * bytes, bytes});
    return places;
  }

  absl::Span<const uint8_t> Input(const Slice& part) const {
    return call_.input.subspan(part.begin * width_, part.count * width_);
  }
  absl::Span<uint8_t> Output(const Slice& part) const {
    return call_.output.subspan(part.begin * width_, part.count * width_);
  }

  // Sends each rank the part that it owns, and reduces this rank's part into `out`.
  absl::Status ReduceParts(const std::vector<Slice>& parts, uint8_t* out) {
    const Slice& mine = parts[rank_];
    Exchanger::Sent sent;
    for (const Slice& part : parts) sent.push_back(Input(part));
    const Exchanger::Received received = PlacesInScratch(mine.count * width_);
    DP_RETURN_IF_ERROR(Move(std::move(sent), received));
    if (mine.count == 0) return absl::OkStatus();
    std::vector<const void*> inputs;
    for (size_t r = 0; r < size_; ++r)
      inputs.push_back(r == rank_ ? Input(mine).data() : received[r].data());
    ReduceInOrder(inputs, call_.shape.type, mine.count, ReductionOf(call_.shape), out);
    return absl::OkStatus();
  }

  absl::Status AllReduce() {
    const size_t bytes = call_.input.size();
    if (bytes == 0) return absl::OkStatus();
    if (bytes * (size_ - 1) <= kWholeFromPeers)
      return ReduceParts(std::vector<Slice>(size_, {0, call_.shape.count}), call_.output.data());
    const size_t chunk = kReducedBytes / width_ * size_;
    for (size_t begin = 0; begin < call_.shape.count; begin += chunk) {
      const size_t count = std::min(chunk, call_.shape.count - begin);
      std::vector<Slice> parts;
      for (size_t r = 0; r < size_; ++r) {
        const Slice part = SliceOf(count, static_cast<int>(r), static_cast<int>(size_));
        parts.push_back({begin + part.begin, part.count});
      }
      const absl::Span<uint8_t> mine = Output(parts[rank_]);
      DP_RETURN_IF_ERROR(ReduceParts(parts, mine.data()));
      Exchanger::Received results;
      for (const Slice& part : parts) results.push_back(Output(part));
      DP_RETURN_IF_ERROR(Move(Exchanger::Sent(size_, mine), std::move(results)));
    }
    return absl::OkStatus();
  }

  // The root, or each rank for its part, gets a reduction.
  absl::Status ReduceForOwners() {
    const bool scatters = call_.shape.kind == CallShape::Kind::kReduceScatter;
    const size_t owned = scatters ? call_.shape.count / size_ : call_.shape.count;
    const size_t chunk = kReducedBytes / width_;
    for (size_t begin = 0; begin < owned; begin += chunk) {
      std::vector<Slice> parts(size_);
      for (size_t r = 0; r < size_; ++r)
        if (scatters || r == static_cast<size_t>(call_.shape.root))
          parts[r] = {(scatters ? r * owned : 0) + begin, std::min(chunk, owned - begin)};
      DP_RETURN_IF_ERROR(ReduceParts(parts, call_.output.data() + begin * width_));
    }
    return absl::OkStatus();
  }

  absl::Status Broadcast() {
    const size_t root = static_cast<size_t>(call_.shape.root);
    if (rank_ == root) return Move(Exchanger::Sent(size_, call_.input), Exchanger::Received(size_));
    Exchanger::Received received(size_);
    received[root] = call_.output;
    return Move(Exchanger::Sent(size_), std::move(received));
  }

  absl::Status AllGather() {
    const size_t bytes = call_.input.size();
    Exchanger::Received received;
    for (size_t r = 0; r < size_; ++r) received.push_back(call_.output.subspan(r * bytes, bytes));
    Keep(received[rank_], call_.input);
    return Move(Exchanger::Sent(size_, call_.input), std::move(received));
  }

  Exchanger& exchanger_;
  const size_t rank_;
  const size_t size_;
  const Collective& call_;
  const size_t width_;  // of an element, in bytes
  std::vector<uint8_t>& scratch_;
};

}  // namespace

absl::Status RunByExchanges(Exchanger& exchanger, int rank, int size, const Collective& call,
                            std::vector<uint8_t>& scratch) {
  return ExchangedCall(exchanger, rank, size, call, scratch).Run();
}

}  // namespace dp::engine
