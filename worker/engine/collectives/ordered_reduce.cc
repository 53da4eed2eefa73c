#include "worker/engine/collectives/ordered_reduce.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

// This file is compiled with vectorisation on. The loops are element-wise, so vector width changes
// no bit: each lane adds the same values in the same order.

namespace dp::engine {
namespace {

struct Sum {
  static float Of(float a, float b) { return a + b; }
};
struct Min {
  static float Of(float a, float b) { return b < a ? b : a; }
};
struct Max {
  static float Of(float a, float b) { return b > a ? b : a; }
};

// `out` may be `a` or `b`, which the simd pragma allows: no element depends on another.
template <typename Op>
void Combine(const float* a, const float* b, size_t count, float* out) {
#pragma omp simd
  for (size_t i = 0; i < count; ++i) out[i] = Op::Of(a[i], b[i]);
}

template <typename Op>
void Reduce(absl::Span<const float* const> inputs, size_t count, float* out) {
  if (inputs.size() == 1) {
    if (out != inputs[0]) std::memcpy(out, inputs[0], count * sizeof(float));
    return;
  }
  if (inputs.size() == 2) return Combine<Op>(inputs[0], inputs[1], count, out);
  // More than two inputs are combined in a block that stays in the first-level cache. `out` is
  // written last, since it may be any of the inputs.
  constexpr size_t kBlock = 1024;
  float block[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t n = std::min(kBlock, count - begin);
    Combine<Op>(inputs[0] + begin, inputs[1] + begin, n, block);
    for (size_t r = 2; r + 1 < inputs.size(); ++r) Combine<Op>(block, inputs[r] + begin, n, block);
    Combine<Op>(block, inputs.back() + begin, n, out + begin);
  }
}

// Divides after the sum, not before: the sum is then of the ranks' own values, in rank order. A
// lone rank gets its values back bit for bit.
void Divide(size_t ranks, size_t count, float* out) {
  if (ranks == 1) return;
  const float share = 1.0f / static_cast<float>(ranks);
#pragma omp simd
  for (size_t i = 0; i < count; ++i) out[i] *= share;
}

}  // namespace

Slice SliceOf(size_t total, int rank, int size) {
  constexpr size_t kFloatsPerLine = 16;
  const size_t ranks = static_cast<size_t>(size);
  size_t share = (total + ranks - 1) / ranks;
  share = (share + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
  const size_t begin = std::min(total, share * static_cast<size_t>(rank));
  return {begin, std::min(share, total - begin)};
}

void ReduceInOrder(absl::Span<const float* const> inputs, size_t count, ReduceOp op, float* out) {
  DP_CHECK(!inputs.empty());
  switch (op) {
    case ReduceOp::kSum:
      return Reduce<Sum>(inputs, count, out);
    case ReduceOp::kMin:
      return Reduce<Min>(inputs, count, out);
    case ReduceOp::kMax:
      return Reduce<Max>(inputs, count, out);
    case ReduceOp::kMean:
      Reduce<Sum>(inputs, count, out);
      return Divide(inputs.size(), count, out);
  }
  DP_CHECK(false);
}

}  // namespace dp::engine
