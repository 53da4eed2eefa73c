#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "dp/distributed.h"
#include "worker/library/in_engine.h"
#include "worker/library/joined_group.h"

// The collectives in which ranks send each other parts of arrays.

namespace dp::distributed {
namespace {

using library::CheckArrays;
using library::CheckCount;
using library::InEngine;
using library::JoinedGroup;
using library::MemberOf;
using library::StartIn;

// The bytes for each rank, and from each.
struct Pieces {
  Pieces(const Elements& input, size_t ranks)
      : type(InEngine(input).type), sent(ranks), received(ranks) {}

  engine::DataType type;
  std::vector<absl::Span<const uint8_t>> sent;
  std::vector<absl::Span<uint8_t>> received;
};

// An exchange by which the ranks do `verb` with their arrays.
struct Verb {
  absl::string_view name;
  engine::CallShape::Verb in_engine;
};
constexpr Verb kGather{"gather", engine::CallShape::Verb::kGather};
constexpr Verb kScatter{"scatter", engine::CallShape::Verb::kScatter};
constexpr Verb kAllToAll{"all_to_all", engine::CallShape::Verb::kAllToAll};

Work Exchange(JoinedGroup& group, const Verb& verb, std::initializer_list<Elements> arrays,
              Pieces pieces) {
  return StartIn(group, verb.name, arrays,
                 [verb = verb.in_engine, pieces = std::move(pieces)](engine::Group& engine) {
                   return engine.Exchange(pieces.sent, pieces.received, verb, pieces.type);
                 });
}

// Consecutive parts of `bytes`, with so many elements each.
template <typename Byte>
std::vector<absl::Span<Byte>> Parts(absl::Span<Byte> bytes, std::span<const size_t> counts,
                                    size_t element) {
  std::vector<absl::Span<Byte>> parts;
  for (const size_t count : counts) {
    parts.push_back(bytes.first(count * element));
    bytes.remove_prefix(count * element);
  }
  return parts;
}

size_t SumOf(const JoinedGroup& group, absl::string_view name, std::span<const size_t> counts) {
  size_t sum = 0;
  for (const size_t count : counts)
    if (__builtin_add_overflow(sum, count, &sum))
      throw DistError(ErrorKind::kLimit,
                      absl::StrCat(group.Context(), ": all_to_all: the sum of ", name,
                                   " is more than any memory holds; give smaller counts"));
  return sum;
}

}  // namespace

Work gather_async(MutableElements output, Elements input, int dst, const ProcessGroup& group) {
  JoinedGroup& member = MemberOf(group);
  const int root = member.RankOf(dst);
  const bool receives = member.options().rank == root;
  if (receives) CheckArrays(member, "gather", output, input);
  CheckCount(member, "gather", receives ? "output" : "output of a rank that is not dst",
             output.count, receives ? input.count : 0, member.size());
  Pieces pieces(input, member.size());
  pieces.sent[static_cast<size_t>(root)] = InEngine(input).bytes;
  if (receives) {
    const std::vector<size_t> counts(member.size(), input.bytes);
    pieces.received = Parts(InEngine(output).bytes, counts, 1);
  }
  return Exchange(member, kGather, {output, input}, std::move(pieces));
}

Work scatter_async(MutableElements output, Elements input, int src, const ProcessGroup& group) {
  JoinedGroup& member = MemberOf(group);
  const int root = member.RankOf(src);
  const bool sends = member.options().rank == root;
  if (sends) CheckArrays(member, "scatter", output, input);
  CheckCount(member, "scatter", sends ? "input" : "input of a rank that is not src", input.count,
             sends ? output.count : 0, member.size());
  Pieces pieces(input, member.size());
  pieces.received[static_cast<size_t>(root)] = InEngine(output).bytes;
  if (sends) {
    const std::vector<size_t> counts(member.size(), output.bytes);
    pieces.sent = Parts(InEngine(input).bytes, counts, 1);
  }
  return Exchange(member, kScatter, {output, input}, std::move(pieces));
}

Work all_to_all_async(MutableElements output, Elements input, const ProcessGroup& group) {
  JoinedGroup& member = MemberOf(group);
  const std::vector<size_t> counts(member.size(), input.count / member.size());
  CheckCount(member, "all_to_all", "input", input.count, counts[0], member.size());
  return all_to_all_async(output, input, counts, counts, group);
}

Work all_to_all_async(MutableElements output, Elements input, std::span<const size_t> output_counts,
                      std::span<const size_t> input_counts, const ProcessGroup& group) {
  JoinedGroup& member = MemberOf(group);
  CheckArrays(member, "all_to_all", output, input);
  CheckCount(member, "all_to_all", "output_counts", output_counts.size(), 1, member.size());
  CheckCount(member, "all_to_all", "input_counts", input_counts.size(), 1, member.size());
  CheckCount(member, "all_to_all", "output", output.count,
             SumOf(member, "output_counts", output_counts), 1);
  CheckCount(member, "all_to_all", "input", input.count,
             SumOf(member, "input_counts", input_counts), 1);
  const auto self = static_cast<size_t>(member.options().rank);
  CheckCount(member, "all_to_all", "this rank's part of output", output_counts[self],
             input_counts[self], 1);
  const size_t element = engine::SizeOf(InEngine(input).type);
  Pieces pieces(input, member.size());
  pieces.sent = Parts(InEngine(input).bytes, input_counts, element);
  pieces.received = Parts(InEngine(output).bytes, output_counts, element);
  return Exchange(member, kAllToAll, {output, input}, std::move(pieces));
}

void gather(MutableElements output, Elements input, int dst, const ProcessGroup& group) {
  gather_async(output, input, dst, group).wait();
}

void scatter(MutableElements output, Elements input, int src, const ProcessGroup& group) {
  scatter_async(output, input, src, group).wait();
}

void all_to_all(MutableElements output, Elements input, const ProcessGroup& group) {
  all_to_all_async(output, input, group).wait();
}

void all_to_all(MutableElements output, Elements input, std::span<const size_t> output_counts,
                std::span<const size_t> input_counts, const ProcessGroup& group) {
  all_to_all_async(output, input, output_counts, input_counts, group).wait();
}

}  // namespace dp::distributed
