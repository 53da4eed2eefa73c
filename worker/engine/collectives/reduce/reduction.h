#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace dp::engine {

// kMean: the mean over the ranks, for floats only. The CPU multiplies the sum by 1 / size; NCCL may
// scale each rank's values before it adds them. The numbers are part of what ranks tell each other.
enum class ReduceOp : uint8_t { kSum = 0, kMin = 1, kMax = 2, kMean = 3, kProduct = 4 };

// In which order the values of the ranks are combined, on CPU backends.
enum class ReduceOrder : uint8_t {
  // A binary tree over the ranks. Let m be the largest power of two below n. The first m of n ranks
  // are combined, then the others, then both. The ranks of an aligned block thus give one value,
  // wherever they are.
  kTree = 0,
  // ((r0 + r1) + r2) + ..., as releases before the tree had it. The same as the tree for up to
  // three ranks.
  kRank = 1,
};

struct Reduction {
  Reduction(ReduceOp op_in, ReduceOrder order_in = ReduceOrder::kTree)  // NOLINT: an operation is a
      : op(op_in), order(order_in) {}                                   // reduction by default

  bool operator==(const Reduction&) const = default;

  ReduceOp op;
  ReduceOrder order;
};

// As torch names it: "sum", "avg".
absl::string_view NameOf(ReduceOp op);

// "tree" or "rank", as checkpoints record it.
absl::string_view NameOf(ReduceOrder order);
// Nullopt for a name of a later release.
std::optional<ReduceOrder> ParseReduceOrder(absl::string_view name);

}  // namespace dp::engine
