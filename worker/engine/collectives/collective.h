#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/engine/collectives/reduce/elements.h"
#include "worker/engine/collectives/reduce/reduction.h"

namespace dp::engine {

// The part of a call that must be equal on all ranks. Ranks that share memory read each other's.
struct CallShape {
  enum class Kind : uint8_t {
    kAllReduce = 1,
    kBroadcast,
    kAllGather,
    kReduce,
    kReduceScatter,
    kExchange,
    kBarrier,
  };
  // The call that an exchange serves.
  enum class Verb : uint8_t { kExchange, kGather, kScatter, kAllToAll };

  bool operator==(const CallShape&) const = default;

  Kind kind = Kind::kAllReduce;
  DataType type = DataType::kUint8;
  ReduceOp op = ReduceOp::kSum;            // kAllReduce, kReduce, kReduceScatter
  ReduceOrder order = ReduceOrder::kTree;  // the same
  Verb verb = Verb::kExchange;             // kExchange
  int32_t root = 0;                        // kBroadcast, kReduce
  // The elements of a rank's input. 0 for kBarrier, and for kExchange, where ranks differ.
  uint64_t count = 0;
};

// "all_reduce", as torch names it.
absl::string_view NameOf(const CallShape& shape);
// Whether it combines elements. The others only move bytes.
bool Reduces(CallShape::Kind kind);
// "all_reduce of 10 float32, op sum".
std::string TextOf(const CallShape& shape);

// Differs between calls that differ, but for one in 2^64.
uint64_t HashOf(const CallShape& shape);

// Only for a kind that reduces.
inline Reduction ReductionOf(const CallShape& shape) { return {shape.op, shape.order}; }

// A collective as one rank calls it.
struct Collective {
  CallShape shape;
  // The same memory where the collective works in place.
  absl::Span<const uint8_t> input;
  absl::Span<uint8_t> output;
  // kExchange: by rank.
  std::vector<absl::Span<const uint8_t>> sent;
  std::vector<absl::Span<uint8_t>> received;
  std::optional<absl::Duration> timeout = std::nullopt;  // by default the group's
  std::optional<uint64_t> number = std::nullopt;         // in errors; by default the group's count
  absl::string_view step_of = {};  // in errors: the operation of which this is a step
  // Over Gloo: moves no data. Ends when all ranks have begun a call of this shape. The pieces of an
  // exchange must also have the sizes that their receivers expect.
  bool only_meets = false;
};

// The call's name in errors.
inline absl::string_view NameOf(const Collective& call) {
  return call.step_of.empty() ? NameOf(call.shape) : call.step_of;
}

// The pieces that a rank sends and expects in an exchange: their bytes, by rank.
struct PieceSizes {
  bool operator==(const PieceSizes&) const = default;

  std::vector<uint64_t> sent;
  std::vector<uint64_t> expected;
};
PieceSizes PieceSizesOf(const Collective& exchange);

// Whether the calls of all ranks, in rank order, fit together; and whether each piece has the size
// that its receiver expects. The same answer on every rank. Sizes of a rank that are not known are
// empty, and differ from none. Errors: InvalidArgument names two ranks and states how they differ.
absl::Status CheckShapesAgree(absl::Span<const CallShape> shapes);
absl::Status CheckPiecesAgree(absl::Span<const PieceSizes> sizes);

}  // namespace dp::engine
