#include "worker/engine/collectives/group.h"

#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/engine/collectives/ended_work.h"

namespace dp::engine {
namespace {

CallShape ShapeOf(CallShape::Kind kind, const ConstElements& data, Reduction reduction) {
  DP_CHECK(reduction.op != ReduceOp::kMean || IsFloat(data.type));
  return {.kind = kind,
          .type = data.type,
          .op = reduction.op,
          .order = reduction.order,
          .count = data.count()};
}

constexpr std::align_val_t kAllocationAlignment{64};

}  // namespace

void Group::Freed::operator()(uint8_t* memory) const {
  operator delete(memory, kAllocationAlignment);
}

absl::Span<uint8_t> Group::Allocate(size_t bytes) {
  // Rounding up to the alignment must not make a small number of a huge one.
  if (bytes > std::numeric_limits<ptrdiff_t>::max()) throw std::bad_alloc();
  allocated_.emplace_back(static_cast<uint8_t*>(operator new(bytes, kAllocationAlignment)));
  std::memset(allocated_.back().get(), 0, bytes);
  return {allocated_.back().get(), bytes};
}

std::unique_ptr<Work> Group::AllReduce(Elements data, Reduction reduction) {
  return Start({.shape = ShapeOf(CallShape::Kind::kAllReduce, data, reduction),
                .input = data.bytes,
                .output = data.bytes});
}

std::unique_ptr<Work> Group::Reduce(Elements data, Reduction reduction, int root) {
  DP_CHECK(root >= 0 && root < size());
  CallShape shape = ShapeOf(CallShape::Kind::kReduce, data, reduction);
  shape.root = root;
  return Start({.shape = shape, .input = data.bytes, .output = data.bytes});
}

std::unique_ptr<Work> Group::ReduceScatter(ConstElements data, Elements part, Reduction reduction) {
  DP_CHECK(data.type == part.type);
  DP_CHECK(data.bytes.size() == part.bytes.size() * static_cast<size_t>(size()));
  return Start({.shape = ShapeOf(CallShape::Kind::kReduceScatter, data, reduction),
                .input = data.bytes,
                .output = part.bytes});
}

std::unique_ptr<Work> Group::Broadcast(Elements data, int root) {
  DP_CHECK(root >= 0 && root < size());
  return Start({.shape = {.kind = CallShape::Kind::kBroadcast,
                          .type = data.type,
                          .root = root,
                          .count = data.count()},
                .input = data.bytes,
                .output = data.bytes});
}

std::unique_ptr<Work> Group::AllGather(ConstElements data, absl::Span<uint8_t> gathered) {
  DP_CHECK(gathered.size() == data.bytes.size() * static_cast<size_t>(size()));
  return Start(
      {.shape = {.kind = CallShape::Kind::kAllGather, .type = data.type, .count = data.count()},
       .input = data.bytes,
       .output = gathered});
}

std::unique_ptr<Work> Group::Exchange(std::vector<absl::Span<const uint8_t>> sent,
                                      std::vector<absl::Span<uint8_t>> received,
                                      CallShape::Verb verb, DataType type) {
  DP_CHECK(sent.size() == static_cast<size_t>(size()) && received.size() == sent.size());
  DP_CHECK(sent[rank()].size() == received[rank()].size());
  return Start({.shape = {.kind = CallShape::Kind::kExchange, .type = type, .verb = verb},
                .sent = std::move(sent),
                .received = std::move(received)});
}

std::unique_ptr<Work> Group::Barrier(std::optional<absl::Duration> timeout) {
  return Start({.shape = {.kind = CallShape::Kind::kBarrier}, .timeout = timeout});
}

std::unique_ptr<Work> Group::Send(ConstElements data, int to, int tag) {
  DP_CHECK(to >= 0 && to < size() && to != rank());
  return Pass({.sends = true, .peer = to, .tag = tag, .type = data.type, .sent = data.bytes});
}

std::unique_ptr<Work> Group::Receive(Elements data, int from, int tag) {
  DP_CHECK(from >= 0 && from < size() && from != rank());
  return Pass(
      {.sends = false, .peer = from, .tag = tag, .type = data.type, .received = data.bytes});
}

std::unique_ptr<Work> Group::Pass(const Message& message) {
  return std::make_unique<EndedWork>(absl::UnimplementedError(absl::StrCat(
      NameOf(message),
      ": this backend has no messages between two ranks; use an exchange of all ranks")));
}

}  // namespace dp::engine
