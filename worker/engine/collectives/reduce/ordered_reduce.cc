#include "worker/engine/collectives/reduce/ordered_reduce.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace dp::engine {
namespace {

// Inputs are combined block by block; the sums between them stay in the first-level cache.
constexpr size_t kBlock = 1024;
constexpr size_t kWidest = 8;
struct alignas(64) Room {
  uint8_t bytes[kBlock * kWidest];
};

class OrderedReduce {
 public:
  OrderedReduce(absl::Span<const void* const> inputs, DataType type, Reduction reduction,
                const ReduceLoops& loops)
      : inputs_(inputs),
        type_(type),
        is_half_(IsHalf(type)),
        reduction_(reduction),
        loops_(loops),
        combine_(loops.combine(is_half_ ? DataType::kFloat32 : type, reduction.op)) {}

  // `out` is written last, since it may be any of the inputs.
  void Run(size_t begin, size_t count, void* out) const {
    const size_t n = inputs_.size(), left = FirstPart(n);
    Room room, other, sum;
    const void* const a = Combined(0, left, begin, count, room);
    const void* const b = Combined(left, n - left, begin, count, other);
    void* const to = is_half_ ? sum.bytes : out;
    combine_(a, b, count, to);
    if (reduction_.op == ReduceOp::kMean) Scale(to, count);
    if (is_half_) loops_.narrow(type_)(reinterpret_cast<float*>(sum.bytes), count, out);
  }

 private:
  // How many of `n` inputs are combined before the rest is added; `n` is 2 or more.
  size_t FirstPart(size_t n) const {
    return reduction_.order == ReduceOrder::kTree ? std::bit_ceil(n) / 2 : n - 1;
  }

  // The combination of `n` inputs from `first` on: in `room`, or where the only input lies.
  const void* Combined(size_t first, size_t n, size_t begin, size_t count, Room& room) const {
    if (n == 1) return Values(first, begin, count, room);
    if (reduction_.order == ReduceOrder::kRank) return OneByOne(n, begin, count, room);
    Room other;
    const size_t left = FirstPart(n);
    const void* const a = Combined(first, left, begin, count, room);
    const void* const b = Combined(first + left, n - left, begin, count, other);
    combine_(a, b, count, room.bytes);
    return room.bytes;
  }

  // In rank order; by a loop, since the recursion would be as deep as there are ranks.
  const void* OneByOne(size_t n, size_t begin, size_t count, Room& room) const {
    Room other;
    const void* sum = Values(0, begin, count, room);
    for (size_t i = 1; i < n; ++i) {
      combine_(sum, Values(i, begin, count, other), count, room.bytes);
      sum = room.bytes;
    }
    return sum;
  }

  const void* Values(size_t input, size_t begin, size_t count, Room& room) const {
    const void* const values = static_cast<const uint8_t*>(inputs_[input]) + begin * SizeOf(type_);
    if (!is_half_) return values;
    loops_.widen(type_)(values, count, reinterpret_cast<float*>(room.bytes));
    return room.bytes;
  }

  // After the sum, not before: the sum is then of the ranks' own values.
  void Scale(void* values, size_t count) const {
    const size_t n = inputs_.size();
    if (type_ == DataType::kFloat64)
      return loops_.scale_float64(static_cast<double*>(values), count, 1.0 / double(n));
    loops_.scale_float32(static_cast<float*>(values), count, 1.0f / float(n));
  }

  const absl::Span<const void* const> inputs_;
  const DataType type_;
  const bool is_half_;
  const Reduction reduction_;
  const ReduceLoops& loops_;
  const ReduceLoops::Combine combine_;
};

}  // namespace

Slice SliceOf(size_t total, int rank, int size) {
  constexpr size_t kFloatsPerLine = 16;
  const size_t ranks = static_cast<size_t>(size);
  size_t share = (total + ranks - 1) / ranks;
  share = (share + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
  const size_t begin = std::min(total, share * static_cast<size_t>(rank));
  return {begin, std::min(share, total - begin)};
}

void ReduceInOrder(absl::Span<const void* const> inputs, DataType type, size_t count,
                   Reduction reduction, void* out, const ReduceLoops& loops) {
  DP_CHECK(!inputs.empty());
  DP_CHECK(reduction.op != ReduceOp::kMean || IsFloat(type));
  if (inputs.size() == 1) {  // a lone rank gets its values back bit for bit
    if (out != inputs[0] && count > 0) std::memcpy(out, inputs[0], count * SizeOf(type));
    return;
  }
  const OrderedReduce reduce(inputs, type, reduction, loops);
  for (size_t begin = 0; begin < count; begin += kBlock)
    reduce.Run(begin, std::min(kBlock, count - begin),
               static_cast<uint8_t*>(out) + begin * SizeOf(type));
}

}  // namespace dp::engine
