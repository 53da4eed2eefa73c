#include "worker/engine/collectives/shm/shm_operations.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace dp::engine {
namespace {

enum class Kind : uint64_t { kAllReduce = 1, kBroadcast, kAllGather };

constexpr size_t kSlotFloats = kSlotBytes / sizeof(float);
// Up to this many floats of all peers together, every rank reads everything and reduces all of it.
// One wait then replaces two, at the price of more additions. All ranks must agree on it: whoever
// changes it changes kSegmentLayout.
constexpr size_t kWholeFloats = size_t{256} << 10;

void Copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// `total` bytes or floats, cut into chunks of `size`. There is at least one, which may be empty.
struct Chunks {
  Chunks(size_t total_in, size_t size_in)
      : total(total_in), size(size_in), count(std::max<size_t>((total + size - 1) / size, 1)) {}

  Slice at(size_t chunk) const {
    const size_t begin = chunk * size;
    return {begin, std::min(size, total - begin)};
  }

  size_t total;
  size_t size;
  size_t count;
};

// In the words of the local backend.
std::string TextOf(const SharedCall& call) {
  switch (static_cast<Kind>(call.kind)) {
    case Kind::kAllReduce:
      return absl::StrCat("all_reduce of ", call.bytes / sizeof(float), " floats, op ",
                          call.argument);
    case Kind::kBroadcast:
      return absl::StrCat("broadcast of ", call.bytes, " bytes from rank ", call.argument);
    case Kind::kAllGather:
      return absl::StrCat("all_gather of ", call.bytes, " bytes");
  }
  return "an operation that this release does not know";
}

}  // namespace

// A sum in chunks, which overlap. While a rank reduces chunk c, its peers have chunk c + 1 staged
// already. It fetches the result of chunk c - 1 only then. A rank may thus be a chunk ahead of its
// peers, and seldom waits.
class ShmOperations::LargeSum {
 public:
  LargeSum(ShmOperations& operations, absl::Span<float> data, ReduceOp op, const Late& late)
      : operations_(operations),
        data_(data),
        op_(op),
        late_(late),
        chunks_(data.size(), kSlotFloats),
        inputs_(operations.size_) {}

  // `first` is the tick of the first chunk, which is staged and which all ranks have made.
  absl::Status Run(uint64_t first) {
    uint64_t staged = first, reduced = 0;
    for (size_t c = 0; c < chunks_.count; ++c) {
      DP_RETURN_IF_ERROR(operations_.Await(staged, late_));
      if (c + 1 < chunks_.count) {
        Stage(c + 1);
        staged = operations_.ticks_.Tick();
      }
      Reduce(c);
      const uint64_t before = reduced;
      reduced = operations_.ticks_.Tick();
      if (c > 0) DP_RETURN_IF_ERROR(Fetch(c - 1, before));
    }
    return Fetch(chunks_.count - 1, reduced);
  }

  // Everything except the slice that this rank reduces itself.
  void Stage(size_t c) {
    const Slice chunk = chunks_.at(c), mine = SliceIn(chunk, operations_.rank_);
    float* const slot = SlotOf(operations_.rank_, c);
    const float* const from = data_.data() + chunk.begin;
    const size_t end = mine.begin + mine.count;
    Copy(slot, from, mine.begin * sizeof(float));
    Copy(slot + end, from + end, (chunk.count - end) * sizeof(float));
  }

  size_t chunks() const { return chunks_.count; }

 private:
  Slice SliceIn(const Slice& chunk, int rank) const {
    return SliceOf(chunk.count, rank, operations_.size_);
  }
  float* SlotOf(int rank, size_t c) const {
    return operations_.FloatSlot(rank, operations_.chunk_ + c);
  }

  // This rank's slice, into its own slot, where nobody else reads that slice as an input.
  void Reduce(size_t c) {
    const Slice chunk = chunks_.at(c), mine = SliceIn(chunk, operations_.rank_);
    if (mine.count == 0) return;
    float* const own = data_.data() + chunk.begin + mine.begin;
    for (int r = 0; r < operations_.size_; ++r)
      inputs_[r] = r == operations_.rank_ ? own : SlotOf(r, c) + mine.begin;
    float* const out = SlotOf(operations_.rank_, c) + mine.begin;
    ReduceInOrder(inputs_, mine.count, op_, out);
    Copy(own, out, mine.count * sizeof(float));
  }

  // The slices that the peers have reduced.
  absl::Status Fetch(size_t c, uint64_t reduced) {
    DP_RETURN_IF_ERROR(operations_.Await(reduced, late_));
    const Slice chunk = chunks_.at(c);
    for (int r = 0; r < operations_.size_; ++r) {
      if (r == operations_.rank_) continue;
      const Slice theirs = SliceIn(chunk, r);
      Copy(data_.data() + chunk.begin + theirs.begin, SlotOf(r, c) + theirs.begin,
           theirs.count * sizeof(float));
    }
    return absl::OkStatus();
  }

  ShmOperations& operations_;
  const absl::Span<float> data_;
  const ReduceOp op_;
  const Late& late_;
  const Chunks chunks_;
  std::vector<const float*> inputs_;
};

ShmOperations::ShmOperations(const SharedSegment& segment, RankTicks& ticks, int rank, int size)
    : segment_(segment), ticks_(ticks), rank_(rank), size_(size) {}

absl::Status ShmOperations::AllReduce(absl::Span<float> data, ReduceOp op, const Late& late) {
  if (data.size() * static_cast<size_t>(size_ - 1) <= kWholeFloats && data.size() <= kSlotFloats)
    return ReduceWhole(data, op, late);
  LargeSum sum(*this, data, op, late);
  sum.Stage(0);
  DP_RETURN_IF_ERROR(Begin({static_cast<uint64_t>(Kind::kAllReduce), static_cast<uint64_t>(op),
                            data.size() * sizeof(float)},
                           late));
  DP_RETURN_IF_ERROR(sum.Run(ticks_.made()));
  chunk_ += sum.chunks();
  return absl::OkStatus();
}

absl::Status ShmOperations::ReduceWhole(absl::Span<float> data, ReduceOp op, const Late& late) {
  const size_t bytes = data.size() * sizeof(float);
  Copy(FloatSlot(rank_, chunk_), data.data(), bytes);
  DP_RETURN_IF_ERROR(
      Begin({static_cast<uint64_t>(Kind::kAllReduce), static_cast<uint64_t>(op), bytes}, late));
  std::vector<const float*> inputs(size_, data.data());
  for (int r = 0; r < size_; ++r)
    if (r != rank_) inputs[r] = FloatSlot(r, chunk_);
  ReduceInOrder(inputs, data.size(), op, data.data());
  ++chunk_;
  return absl::OkStatus();
}

// The tick of chunk c says that the root has staged it, or that a peer has read chunk c - 1.
absl::Status ShmOperations::Broadcast(absl::Span<uint8_t> data, int root, const Late& late) {
  const Chunks chunks(data.size(), kSlotBytes);
  const auto stage = [&](size_t c) {
    const Slice chunk = chunks.at(c);
    Copy(segment_.slot(root, chunk_ + c), data.data() + chunk.begin, chunk.count);
  };
  const auto fetch = [&](size_t c) {
    const Slice chunk = chunks.at(c);
    Copy(data.data() + chunk.begin, segment_.slot(root, chunk_ + c), chunk.count);
  };
  const bool sends = rank_ == root;
  if (sends) stage(0);
  DP_RETURN_IF_ERROR(Begin(
      {static_cast<uint64_t>(Kind::kBroadcast), static_cast<uint64_t>(root), data.size()}, late));
  const uint64_t first = ticks_.made();
  for (size_t c = 1; c < chunks.count; ++c) {
    if (sends && c >= kSlotsPerRank) DP_RETURN_IF_ERROR(Await(first + c - kSlotsPerRank + 1, late));
    sends ? stage(c) : fetch(c - 1);
    ticks_.Tick();
    if (!sends) DP_RETURN_IF_ERROR(AwaitRank(root, first + c, late));
  }
  if (!sends) fetch(chunks.count - 1);
  chunk_ += chunks.count;
  if (!sends || chunks.count < kSlotsPerRank) return absl::OkStatus();
  // The next operation may write the slot of this chunk before its first wait.
  return Await(first + chunks.count - kSlotsPerRank + 1, late);
}

absl::Status ShmOperations::AllGather(absl::Span<const uint8_t> data, absl::Span<uint8_t> gathered,
                                      const Late& late) {
  const Chunks chunks(data.size(), kSlotBytes);
  const auto stage = [&](size_t c) {
    const Slice chunk = chunks.at(c);
    Copy(segment_.slot(rank_, chunk_ + c), data.data() + chunk.begin, chunk.count);
  };
  stage(0);
  DP_RETURN_IF_ERROR(Begin({static_cast<uint64_t>(Kind::kAllGather), 0, data.size()}, late));
  uint64_t staged = ticks_.made();
  for (size_t c = 0; c < chunks.count; ++c) {
    DP_RETURN_IF_ERROR(Await(staged, late));
    if (c + 1 < chunks.count) {
      stage(c + 1);
      staged = ticks_.Tick();
    }
    const Slice chunk = chunks.at(c);
    for (int r = 0; r < size_; ++r)
      if (r != rank_)
        Copy(gathered.data() + static_cast<size_t>(r) * data.size() + chunk.begin,
             segment_.slot(r, chunk_ + c), chunk.count);
  }
  Copy(gathered.data() + static_cast<size_t>(rank_) * data.size(), data.data(), data.size());
  chunk_ += chunks.count;
  return absl::OkStatus();
}

// Publishes the call and the first chunk, and waits for those of all ranks.
absl::Status ShmOperations::Begin(const SharedCall& call, const Late& late) {
  segment_.record(rank_).calls[++operations_ % 2] = call;
  DP_RETURN_IF_ERROR(Await(ticks_.Tick(), late));
  return CheckCallsAgree();
}

absl::Status ShmOperations::CheckCallsAgree() const {
  const SharedCall& first = segment_.record(0).calls[operations_ % 2];
  for (int r = 1; r < size_; ++r) {
    const SharedCall& other = segment_.record(r).calls[operations_ % 2];
    if (other == first) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("rank 0 calls ", TextOf(first), ", rank ", r, " calls ", TextOf(other)));
  }
  return absl::OkStatus();
}

absl::Status ShmOperations::Await(uint64_t tick, const Late& late) {
  if (ticks_.AwaitTick(tick) == RankTicks::Wait::kReached) return absl::OkStatus();
  return late(ticks_.Behind(tick));
}

absl::Status ShmOperations::AwaitRank(int rank, uint64_t tick, const Late& late) {
  if (ticks_.AwaitTickOf(rank, tick) == RankTicks::Wait::kReached) return absl::OkStatus();
  return late({rank});
}

float* ShmOperations::FloatSlot(int rank, uint64_t chunk) const {
  return reinterpret_cast<float*>(segment_.slot(rank, chunk));
}

}  // namespace dp::engine
