#include "worker/engine/collectives/reduce/block_reduce.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "worker/engine/collectives/reduce/ordered_reduce.h"

namespace dp::engine {
namespace {

// Combined at a time: the sums in between stay in the first-level cache.
constexpr size_t kStretch = 1024;
constexpr size_t kWidestElement = 8;
struct alignas(64) StretchRoom {
  uint8_t bytes[kStretch * kWidestElement];
};

// Combines a stretch of some inputs by the tree. An input is a block of one rank or more.
class BlockTree {
 public:
  BlockTree(absl::Span<const CombinedBlock> blocks, size_t width, ReduceLoops::Combine combine,
            ReduceOrder order)
      : blocks_(blocks), width_(width), combine_(combine), order_(order) {}

  // In `room`, or where the only input lies.
  const void* Combined(size_t begin, size_t count, StretchRoom& room) {
    next_ = 0;
    if (order_ == ReduceOrder::kRank) return OneByOne(begin, count, room);
    int ranks = 0;
    for (const CombinedBlock& block : blocks_) ranks += block.ranks;
    return Node(ranks, begin, count, room);
  }

 private:
  const void* Next(size_t begin) {
    return static_cast<const uint8_t*>(blocks_[next_++].values) + begin * width_;
  }

  // The node that begins with the next input.
  const void* Node(int ranks, size_t begin, size_t count, StretchRoom& room) {
    DP_CHECK(next_ < blocks_.size() && blocks_[next_].ranks <= ranks);
    if (blocks_[next_].ranks == ranks) return Next(begin);
    StretchRoom other;
    const int left = static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks)) / 2);
    const void* const a = Node(left, begin, count, room);
    const void* const b = Node(ranks - left, begin, count, other);
    combine_(a, b, count, room.bytes);
    return room.bytes;
  }

  const void* OneByOne(size_t begin, size_t count, StretchRoom& room) {
    const void* sum = Next(begin);
    while (next_ < blocks_.size()) {
      combine_(sum, Next(begin), count, room.bytes);
      sum = room.bytes;
    }
    return sum;
  }

  const absl::Span<const CombinedBlock> blocks_;
  const size_t width_;  // of an accumulator, in bytes
  const ReduceLoops::Combine combine_;
  const ReduceOrder order_;
  size_t next_ = 0;
};

// After the sum, as in ReduceInOrder.
void Scale(DataType accumulator, size_t count, int ranks, const ReduceLoops& loops, void* values) {
  if (accumulator == DataType::kFloat64)
    return loops.scale_float64(static_cast<double*>(values), count, 1.0 / double(ranks));
  loops.scale_float32(static_cast<float*>(values), count, 1.0f / float(ranks));
}

}  // namespace

DataType AccumulatorOf(DataType type) { return IsHalf(type) ? DataType::kFloat32 : type; }

void ReduceBlock(absl::Span<const void* const> inputs, DataType type, size_t count,
                 Reduction reduction, void* out, const ReduceLoops& loops) {
  DP_CHECK(!inputs.empty());
  const ReduceOp op = reduction.op == ReduceOp::kMean ? ReduceOp::kSum : reduction.op;
  if (!IsHalf(type)) return ReduceInOrder(inputs, type, count, {op, reduction.order}, out, loops);
  // Widened first, since ReduceInOrder would round the sum.
  std::vector<StretchRoom> wide(inputs.size());
  std::vector<const void*> rooms;
  for (const StretchRoom& room : wide) rooms.push_back(room.bytes);
  for (size_t begin = 0; begin < count; begin += kStretch) {
    const size_t stretch = std::min(kStretch, count - begin);
    for (size_t i = 0; i < inputs.size(); ++i)
      loops.widen(type)(static_cast<const uint8_t*>(inputs[i]) + begin * SizeOf(type), stretch,
                        reinterpret_cast<float*>(wide[i].bytes));
    ReduceInOrder(rooms, DataType::kFloat32, stretch, {op, reduction.order},
                  static_cast<float*>(out) + begin, loops);
  }
}

void ReduceBlocks(absl::Span<const CombinedBlock> blocks, DataType type, size_t count,
                  Reduction reduction, void* out, const ReduceLoops& loops) {
  DP_CHECK(!blocks.empty());
  const DataType accumulator = AccumulatorOf(type);
  const size_t width = SizeOf(accumulator);
  BlockTree tree(blocks, width, loops.combine(accumulator, reduction.op), reduction.order);
  int ranks = 0;
  for (const CombinedBlock& block : blocks) ranks += block.ranks;
  StretchRoom room;
  for (size_t begin = 0; begin < count; begin += kStretch) {
    const size_t stretch = std::min(kStretch, count - begin);
    const void* const sum = tree.Combined(begin, stretch, room);
    if (sum != room.bytes) std::memcpy(room.bytes, sum, stretch * width);
    if (reduction.op == ReduceOp::kMean) Scale(accumulator, stretch, ranks, loops, room.bytes);
    uint8_t* const to = static_cast<uint8_t*>(out) + begin * SizeOf(type);
    if (IsHalf(type)) {
      loops.narrow(type)(reinterpret_cast<const float*>(room.bytes), stretch, to);
    } else {
      std::memcpy(to, room.bytes, stretch * width);
    }
  }
}

}  // namespace dp::engine
