#include "worker/engine/collectives/reduce/reduction.h"

namespace dp::engine {

absl::string_view NameOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kMean:
      return "avg";
    case ReduceOp::kProduct:
      return "product";
  }
  return "an unknown operation";
}

absl::string_view NameOf(ReduceOrder order) {
  return order == ReduceOrder::kTree ? "tree" : "rank";
}

std::optional<ReduceOrder> ParseReduceOrder(absl::string_view name) {
  for (const ReduceOrder order : {ReduceOrder::kTree, ReduceOrder::kRank})
    if (name == NameOf(order)) return order;
  return std::nullopt;
}

}  // namespace dp::engine
