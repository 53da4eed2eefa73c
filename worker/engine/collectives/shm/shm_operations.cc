#include "worker/engine/collectives/shm/shm_operations.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "worker/engine/collectives/shm/shm_chunks.h"
#include "worker/engine/collectives/shm/shm_reduce.h"

namespace dp::engine {
namespace {

// The tick of chunk c says that the root has staged it, or that a peer has read chunk c - 1.
absl::Status Broadcast(ShmRank& rank, const Collective& call) {
  const int root = call.shape.root;
  const Chunks chunks(call.input.size(), kSlotBytes);
  const auto stage = [&](size_t c) {
    const Slice chunk = chunks.at(c);
    CopyBytes(rank.slot(root, c), call.input.data() + chunk.begin, chunk.count);
  };
  const auto fetch = [&](size_t c) {
    const Slice chunk = chunks.at(c);
    CopyBytes(call.output.data() + chunk.begin, rank.slot(root, c), chunk.count);
  };
  const bool sends = rank.rank() == root;
  if (sends) stage(0);
  DP_RETURN_IF_ERROR(rank.Begin(call));
  const uint64_t first = rank.made();
  for (size_t c = 1; c < chunks.count; ++c) {
    if (sends && c >= kSlotsPerRank) DP_RETURN_IF_ERROR(rank.Await(first + c - kSlotsPerRank + 1));
    sends ? stage(c) : fetch(c - 1);
    rank.Tick();
    if (!sends) DP_RETURN_IF_ERROR(rank.AwaitRank(root, first + c));
  }
  if (!sends) fetch(chunks.count - 1);
  rank.End(chunks.count);
  if (!sends || chunks.count < kSlotsPerRank) return absl::OkStatus();
  // The next operation may write the slot of this chunk before its first wait.
  return rank.Await(first + chunks.count - kSlotsPerRank + 1);
}

absl::Status AllGather(ShmRank& rank, const Collective& call) {
  const size_t bytes = call.input.size();
  const Chunks chunks(bytes, kSlotBytes);
  const auto place_of = [&](int r) { return call.output.data() + static_cast<size_t>(r) * bytes; };
  const auto stage = [&](size_t c) {
    const Slice chunk = chunks.at(c);
    CopyBytes(rank.slot(rank.rank(), c), call.input.data() + chunk.begin, chunk.count);
  };
  stage(0);
  DP_RETURN_IF_ERROR(rank.Begin(call));
  CopyBytes(place_of(rank.rank()), call.input.data(), bytes);
  return StageAndReadChunks(rank, chunks.count, stage, [&](size_t c) {
    const Slice chunk = chunks.at(c);
    for (int r = 0; r < rank.size(); ++r)
      if (r != rank.rank()) CopyBytes(place_of(r) + chunk.begin, rank.slot(r, c), chunk.count);
  });
}

// A range of bytes in the row of pieces that a rank sends.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

Range Overlap(Range a, Range b) {
  const uint64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// The pieces of an exchange. A rank stages its pieces for all peers as one row, in rank order and
// cut into chunks. Each peer reads what is for it.
class ExchangedPieces {
 public:
  ExchangedPieces(ShmRank& rank, const Collective& call) : rank_(rank), call_(call) {}

  void Stage(size_t c) {
    Range piece;
    for (int to = 0; to < rank_.size(); ++to) {
      if (to == rank_.rank()) continue;
      piece = {piece.end, piece.end + call_.sent[to].size()};
      const Range part = Overlap(piece, ChunkAt(c));
      CopyBytes(rank_.slot(rank_.rank(), c) + (part.begin - ChunkAt(c).begin),
                call_.sent[to].data() + (part.begin - piece.begin), part.end - part.begin);
    }
  }

  // After Begin. The longest row has the most chunks.
  size_t ChunkCount() const {
    size_t count = 1;
    for (int from = 0; from < rank_.size(); ++from)
      count = std::max(count, Chunks(PlaceOf(from, rank_.size()), kSlotBytes).count);
    return count;
  }

  void Read(size_t c) {
    for (int from = 0; from < rank_.size(); ++from) {
      if (from == rank_.rank()) continue;
      const uint64_t begin = PlaceOf(from, rank_.rank());
      const Range piece{begin, begin + rank_.sent(from, rank_.rank())};
      const Range part = Overlap(piece, ChunkAt(c));
      CopyBytes(call_.received[from].data() + (part.begin - piece.begin),
                rank_.slot(from, c) + (part.begin - ChunkAt(c).begin), part.end - part.begin);
    }
  }

 private:
  static Range ChunkAt(size_t c) { return {c * kSlotBytes, (c + 1) * kSlotBytes}; }

  // Where the piece for `to` begins in the row of `from`.
  uint64_t PlaceOf(int from, int to) const {
    uint64_t place = 0;
    for (int r = 0; r < to; ++r)
      if (r != from) place += rank_.sent(from, r);
    return place;
  }

  ShmRank& rank_;
  const Collective& call_;
};

absl::Status Exchange(ShmRank& rank, const Collective& call) {
  ExchangedPieces pieces(rank, call);
  pieces.Stage(0);
  DP_RETURN_IF_ERROR(rank.Begin(call));
  const absl::Span<const uint8_t> own = call.sent[rank.rank()];
  CopyBytes(call.received[rank.rank()].data(), own.data(), own.size());
  return StageAndReadChunks(
      rank, pieces.ChunkCount(), [&](size_t c) { pieces.Stage(c); },
      [&](size_t c) { pieces.Read(c); });
}

}  // namespace

absl::Status RunOverShm(ShmRank& rank, const Collective& call) {
  switch (call.shape.kind) {
    case CallShape::Kind::kAllReduce:
      return ShmAllReduce(rank, call);
    case CallShape::Kind::kReduce:
      return ShmReduce(rank, call);
    case CallShape::Kind::kReduceScatter:
      return ShmReduceScatter(rank, call);
    case CallShape::Kind::kBroadcast:
      return Broadcast(rank, call);
    case CallShape::Kind::kAllGather:
      return AllGather(rank, call);
    case CallShape::Kind::kExchange:
      return Exchange(rank, call);
    case CallShape::Kind::kBarrier:
      return rank.Begin(call);
  }
  DP_CHECK(false);
}

}  // namespace dp::engine
