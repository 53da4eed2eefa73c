#include "worker/engine/collectives/shm/shm_reduce.h"

#include <algorithm>
#include <vector>

#include "base/status.h"
#include "worker/engine/collectives/reduce/ordered_reduce.h"
#include "worker/engine/collectives/shm/shm_chunks.h"

namespace dp::engine {
namespace {

// Up to this many bytes of all peers together, every rank reads everything and reduces all of it.
// One wait then replaces two, at the price of more additions. All ranks must agree on it: whoever
// changes it changes kSegmentLayout.
constexpr size_t kWholeBytes = size_t{1} << 20;
// From so many bytes on, data in the heaps of all ranks is reduced where it lies. The copies that
// this spares take longer than its second wait. All ranks must agree on this, too.
constexpr size_t kInHeapsBytes = size_t{256} << 10;
// Memory of a peer is read and written in pieces that stay in the first-level cache.
constexpr size_t kCachedBytes = size_t{16} << 10;

// A reduction in chunks, which overlap. While a rank reduces chunk c, its peers have chunk c + 1
// staged already. It fetches the result of chunk c - 1 only then. A rank may thus be a chunk ahead
// of its peers, and seldom waits.
class StagedReduce {
 public:
  StagedReduce(ShmRank& rank, const Collective& call)
      : rank_(rank),
        call_(call),
        gets_result_(call.shape.kind == CallShape::Kind::kAllReduce ||
                     call.shape.root == rank.rank()),
        element_(SizeOf(call.shape.type)),
        chunks_(call.shape.count, kSlotBytes / element_),
        inputs_(rank.size()) {}

  // The call has begun, and chunk 0 is staged with the latest tick.
  absl::Status Run() {
    uint64_t staged = rank_.made(), reduced = 0;
    for (size_t c = 0; c < chunks_.count; ++c) {
      DP_RETURN_IF_ERROR(rank_.Await(staged));
      if (c + 1 < chunks_.count) {
        Stage(c + 1);
        staged = rank_.Tick();
      }
      Reduce(c);
      const uint64_t before = reduced;
      reduced = rank_.Tick();
      if (c > 0) DP_RETURN_IF_ERROR(Fetch(c - 1, before));
    }
    DP_RETURN_IF_ERROR(Fetch(chunks_.count - 1, reduced));
    rank_.End(chunks_.count);
    return absl::OkStatus();
  }

  // Everything except the slice that this rank reduces itself.
  void Stage(size_t c) {
    const Slice chunk = chunks_.at(c), mine = SliceIn(chunk, rank_.rank());
    uint8_t* const slot = rank_.slot(rank_.rank(), c);
    const uint8_t* const from = call_.input.data() + chunk.begin * element_;
    const size_t end = mine.begin + mine.count;
    CopyBytes(slot, from, mine.begin * element_);
    CopyBytes(slot + end * element_, from + end * element_, (chunk.count - end) * element_);
  }

 private:
  Slice SliceIn(const Slice& chunk, int rank) const {
    return SliceOf(chunk.count, rank, rank_.size());
  }

  // This rank's slice, into its own slot, where nobody else reads that slice as an input.
  void Reduce(size_t c) {
    const Slice chunk = chunks_.at(c), mine = SliceIn(chunk, rank_.rank());
    if (mine.count == 0) return;
    const size_t own = (chunk.begin + mine.begin) * element_;
    for (int r = 0; r < rank_.size(); ++r)
      inputs_[r] =
          r == rank_.rank() ? call_.input.data() + own : rank_.slot(r, c) + mine.begin * element_;
    uint8_t* const out = rank_.slot(rank_.rank(), c) + mine.begin * element_;
    ReduceInOrder(inputs_, call_.shape.type, mine.count, ReductionOf(call_.shape), out);
    if (gets_result_) CopyBytes(call_.output.data() + own, out, mine.count * element_);
  }

  // The slices that the peers have reduced.
  absl::Status Fetch(size_t c, uint64_t reduced) {
    if (!gets_result_) return absl::OkStatus();
    DP_RETURN_IF_ERROR(rank_.Await(reduced));
    const Slice chunk = chunks_.at(c);
    for (int r = 0; r < rank_.size(); ++r) {
      if (r == rank_.rank()) continue;
      const Slice theirs = SliceIn(chunk, r);
      CopyBytes(call_.output.data() + (chunk.begin + theirs.begin) * element_,
                rank_.slot(r, c) + theirs.begin * element_, theirs.count * element_);
    }
    return absl::OkStatus();
  }

  ShmRank& rank_;
  const Collective& call_;
  const bool gets_result_;
  const size_t element_;  // in bytes
  const Chunks chunks_;   // of elements
  std::vector<const void*> inputs_;
};

// Every rank reads everything. The call has begun, and all data is staged.
absl::Status ReduceWhole(ShmRank& rank, const Collective& call) {
  DP_RETURN_IF_ERROR(rank.Await(rank.made()));
  std::vector<const void*> inputs(rank.size(), call.input.data());
  for (int r = 0; r < rank.size(); ++r)
    if (r != rank.rank()) inputs[r] = rank.slot(r, 0);
  ReduceInOrder(inputs, call.shape.type, call.shape.count, ReductionOf(call.shape),
                call.output.data());
  rank.End(1);
  return absl::OkStatus();
}

// Each rank reduces its slice where the data of all ranks lies, and writes the result there.
absl::Status ReduceInHeaps(ShmRank& rank, const Collective& call) {
  const size_t element = SizeOf(call.shape.type);
  const Slice mine = SliceOf(call.shape.count, rank.rank(), rank.size());
  std::vector<const void*> inputs(rank.size());
  const Chunks pieces(mine.count, kCachedBytes / element);
  for (size_t p = 0; p < pieces.count; ++p) {
    const Slice piece = pieces.at(p);
    const size_t at = (mine.begin + piece.begin) * element;
    for (int r = 0; r < rank.size(); ++r) inputs[r] = rank.data_in_heap(r) + at;
    uint8_t* const out = call.output.data() + at;
    ReduceInOrder(inputs, call.shape.type, piece.count, ReductionOf(call.shape), out);
    for (int r = 0; r < rank.size(); ++r)
      if (r != rank.rank()) CopyBytes(rank.data_in_heap(r) + at, out, piece.count * element);
  }
  return rank.Await(rank.Tick());
}

int RanksInHeaps(const ShmRank& rank) {
  int ranks = 0;
  for (int r = 0; r < rank.size(); ++r) ranks += rank.data_in_heap(r) != nullptr ? 1 : 0;
  return ranks;
}

}  // namespace

absl::Status ShmAllReduce(ShmRank& rank, const Collective& call) {
  const size_t bytes = call.input.size();
  const bool whole =
      bytes * static_cast<size_t>(rank.size() - 1) <= kWholeBytes && bytes <= kSlotBytes;
  StagedReduce staged(rank, call);
  const auto stage = [&] {
    whole ? CopyBytes(rank.slot(rank.rank(), 0), call.input.data(), bytes) : staged.Stage(0);
  };
  const bool in_heap = bytes >= kInHeapsBytes && rank.IsInHeap(call.input);
  if (!in_heap) stage();
  DP_RETURN_IF_ERROR(rank.Begin(call));
  const int ranks_in_heaps = bytes >= kInHeapsBytes ? RanksInHeaps(rank) : 0;
  if (ranks_in_heaps == rank.size()) return ReduceInHeaps(rank, call);
  if (ranks_in_heaps > 0) {  // those have staged nothing yet
    if (in_heap) stage();
    rank.Tick();
  }
  return whole ? ReduceWhole(rank, call) : staged.Run();
}

absl::Status ShmReduce(ShmRank& rank, const Collective& call) {
  StagedReduce reduce(rank, call);
  reduce.Stage(0);
  DP_RETURN_IF_ERROR(rank.Begin(call));
  return reduce.Run();
}

// A slot holds a range of the part of each rank, one behind the other.
absl::Status ShmReduceScatter(ShmRank& rank, const Collective& call) {
  const size_t element = SizeOf(call.shape.type), ranks = static_cast<size_t>(rank.size());
  const size_t part = call.shape.count / ranks, range = kSlotBytes / element / ranks;
  const Chunks chunks(part, range);
  const auto part_of = [&](int r) {
    return call.input.data() + static_cast<size_t>(r) * part * element;
  };
  const auto place_of = [&](int r) { return static_cast<size_t>(r) * range * element; };
  const auto stage = [&](size_t c) {
    const Slice chunk = chunks.at(c);
    for (int r = 0; r < rank.size(); ++r)
      if (r != rank.rank())
        CopyBytes(rank.slot(rank.rank(), c) + place_of(r), part_of(r) + chunk.begin * element,
                  chunk.count * element);
  };
  std::vector<const void*> inputs(ranks);
  const auto reduce = [&](size_t c) {
    const Slice chunk = chunks.at(c);
    for (int r = 0; r < rank.size(); ++r)
      inputs[r] = r == rank.rank() ? part_of(r) + chunk.begin * element
                                   : rank.slot(r, c) + place_of(rank.rank());
    ReduceInOrder(inputs, call.shape.type, chunk.count, ReductionOf(call.shape),
                  call.output.data() + chunk.begin * element);
  };
  stage(0);
  DP_RETURN_IF_ERROR(rank.Begin(call));
  return StageAndReadChunks(rank, chunks.count, stage, reduce);
}

}  // namespace dp::engine
