#include "worker/engine/collectives/local/rank_part.h"

#include <cstring>
#include <vector>

#include "worker/engine/collectives/reduce/ordered_reduce.h"

namespace dp::engine {
namespace {

void CopyTo(uint8_t* to, absl::Span<const uint8_t> from) {
  if (!from.empty() && from.data() != to) std::memcpy(to, from.data(), from.size());
}

// Reduces the range of all inputs into `out`.
void ReduceRange(absl::Span<const Collective* const> calls, Slice range, uint8_t* out) {
  const CallShape& shape = calls[0]->shape;
  std::vector<const void*> inputs;
  for (const Collective* call : calls)
    inputs.push_back(call->input.data() + range.begin * SizeOf(shape.type));
  ReduceInOrder(inputs, shape.type, range.count, ReductionOf(shape), out);
}

// Slices do not overlap, so the ranks may write into each other's memory concurrently. A lone
// rank's data is its reduction already, and may lie in the memory of a device.
void ReduceSliceForAll(int rank, absl::Span<const Collective* const> calls) {
  const int size = static_cast<int>(calls.size());
  const CallShape& shape = calls[0]->shape;
  const Slice slice = SliceOf(shape.count, rank, size);
  if (size == 1 || slice.count == 0) return;
  const size_t begin = slice.begin * SizeOf(shape.type), bytes = slice.count * SizeOf(shape.type);
  uint8_t* const out = calls[rank]->output.data() + begin;
  ReduceRange(calls, slice, out);
  for (int r = 0; r < size; ++r)
    if (r != rank) std::memcpy(calls[r]->output.data() + begin, out, bytes);
}

}  // namespace

void RunPartOf(int rank, absl::Span<const Collective* const> calls) {
  const Collective& mine = *calls[rank];
  const CallShape& shape = mine.shape;
  switch (shape.kind) {
    case CallShape::Kind::kAllReduce:
      return ReduceSliceForAll(rank, calls);
    case CallShape::Kind::kReduce:
      if (rank == shape.root) ReduceRange(calls, {0, shape.count}, mine.output.data());
      return;
    case CallShape::Kind::kReduceScatter: {
      const size_t part = shape.count / calls.size();
      return ReduceRange(calls, {part * static_cast<size_t>(rank), part}, mine.output.data());
    }
    case CallShape::Kind::kBroadcast:
      if (rank != shape.root) CopyTo(mine.output.data(), calls[shape.root]->input);
      return;
    case CallShape::Kind::kAllGather:
      for (size_t r = 0; r < calls.size(); ++r)
        CopyTo(mine.output.data() + r * mine.input.size(), calls[r]->input);
      return;
    case CallShape::Kind::kExchange:
      for (size_t r = 0; r < calls.size(); ++r)
        CopyTo(mine.received[r].data(), calls[r]->sent[rank]);
      return;
    case CallShape::Kind::kBarrier:
      return;
  }
}

}  // namespace dp::engine
