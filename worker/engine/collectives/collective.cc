#include "worker/engine/collectives/collective.h"

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace dp::engine {
namespace {

absl::string_view NameOfVerb(CallShape::Verb verb) {
  switch (verb) {
    case CallShape::Verb::kExchange:
      return "exchange";
    case CallShape::Verb::kGather:
      return "gather";
    case CallShape::Verb::kScatter:
      return "scatter";
    case CallShape::Verb::kAllToAll:
      return "all_to_all";
  }
  return "an exchange that this release does not know";
}

}  // namespace

absl::string_view NameOf(const CallShape& shape) {
  switch (shape.kind) {
    case CallShape::Kind::kAllReduce:
      return "all_reduce";
    case CallShape::Kind::kBroadcast:
      return "broadcast";
    case CallShape::Kind::kAllGather:
      return "all_gather";
    case CallShape::Kind::kReduce:
      return "reduce";
    case CallShape::Kind::kReduceScatter:
      return "reduce_scatter";
    case CallShape::Kind::kExchange:
      return NameOfVerb(shape.verb);
    case CallShape::Kind::kBarrier:
      return "barrier";
  }
  return "an operation that this release does not know";
}

bool Reduces(CallShape::Kind kind) {
  return kind == CallShape::Kind::kAllReduce || kind == CallShape::Kind::kReduce ||
         kind == CallShape::Kind::kReduceScatter;
}

std::string TextOf(const CallShape& shape) {
  using Kind = CallShape::Kind;
  if (shape.kind == Kind::kBarrier) return "barrier";
  if (shape.kind == Kind::kExchange)
    return shape.type == DataType::kUint8 ? std::string(NameOf(shape))
                                          : absl::StrCat(NameOf(shape), " of ", NameOf(shape.type));
  std::string text = absl::StrCat(NameOf(shape), " of ", shape.count, " ", NameOf(shape.type));
  const bool reduces = Reduces(shape.kind);
  if (reduces) absl::StrAppend(&text, ", op ", NameOf(shape.op));
  if (reduces && shape.order == ReduceOrder::kRank) absl::StrAppend(&text, " in rank order");
  if (shape.kind == Kind::kBroadcast) absl::StrAppend(&text, " from rank ", shape.root);
  if (shape.kind == Kind::kReduce) absl::StrAppend(&text, ", to rank ", shape.root);
  return text;
}

uint64_t HashOf(const CallShape& shape) {
  uint64_t hash = shape.count;
  for (const uint64_t part : {static_cast<uint64_t>(shape.root), static_cast<uint64_t>(shape.type),
                              static_cast<uint64_t>(shape.op), static_cast<uint64_t>(shape.order),
                              static_cast<uint64_t>(shape.kind), static_cast<uint64_t>(shape.verb)})
    hash = NextRandom(hash) ^ part;
  return NextRandom(hash);
}

PieceSizes PieceSizesOf(const Collective& exchange) {
  PieceSizes sizes;
  for (const auto& piece : exchange.sent) sizes.sent.push_back(piece.size());
  for (const auto& piece : exchange.received) sizes.expected.push_back(piece.size());
  return sizes;
}

absl::Status CheckShapesAgree(absl::Span<const CallShape> shapes) {
  for (size_t r = 1; r < shapes.size(); ++r)
    if (shapes[r] != shapes[0])
      return absl::InvalidArgumentError(absl::StrCat("rank 0 calls ", TextOf(shapes[0]), ", rank ",
                                                     r, " calls ", TextOf(shapes[r])));
  return absl::OkStatus();
}

absl::Status CheckPiecesAgree(absl::Span<const PieceSizes> sizes) {
  for (size_t from = 0; from < sizes.size(); ++from)
    for (size_t to = 0; to < sizes.size(); ++to)
      if (!sizes[from].sent.empty() && !sizes[to].expected.empty() &&
          sizes[from].sent[to] != sizes[to].expected[from])
        return absl::InvalidArgumentError(
            absl::StrCat("rank ", from, " sends ", sizes[from].sent[to], " bytes to rank ", to,
                         ", which expects ", sizes[to].expected[from]));
  return absl::OkStatus();
}

}  // namespace dp::engine
