#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "dp/distributed.h"
#include "worker/library/dist_error.h"
#include "worker/library/joined_group.h"

namespace dp::distributed {
namespace {

using library::JoinedGroup;
using library::MemberOf;
using library::PendingWork;

[[noreturn]] void Reject(ErrorKind kind, const JoinedGroup& group, const std::string& why) {
  throw DistError(kind, absl::StrCat(group.Context(), ": ", why));
}

absl::string_view NameOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat64:
      return "float64";
    case DataType::kInt32:
      return "int32";
    case DataType::kInt64:
      return "int64";
    case DataType::kUint8:
      return "uint8";
  }
  return "unknown";
}

engine::ReduceOp InEngine(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return engine::ReduceOp::kSum;
    case ReduceOp::kAvg:
      return engine::ReduceOp::kMean;
    case ReduceOp::kMin:
      return engine::ReduceOp::kMin;
    case ReduceOp::kMax:
      return engine::ReduceOp::kMax;
  }
  throw DistError(ErrorKind::kInvalidArgument,
                  absl::StrCat("reduce op ", static_cast<int>(op), " is unknown"));
}

absl::Span<uint8_t> Bytes(const MutableElements& elements) {
  return {static_cast<uint8_t*>(elements.data), elements.bytes};
}

absl::Span<const uint8_t> Bytes(const Elements& elements) {
  return {static_cast<const uint8_t*>(elements.data), elements.bytes};
}

Work Start(JoinedGroup& group, const JoinedGroup::Begin& begin,
           std::unique_ptr<std::vector<uint8_t>> memory = nullptr) {
  return Work(
      std::make_unique<PendingWork>(group.Start(begin), group.Context(), std::move(memory)));
}

void CheckGather(const JoinedGroup& group, const MutableElements& output, const Elements& input) {
  if (output.type != input.type)
    Reject(ErrorKind::kInvalidArgument, group,
           absl::StrCat("all_gather of ", NameOf(input.type), " into ", NameOf(output.type),
                        "; give arrays of one type"));
  const size_t size = static_cast<size_t>(group.options().size);
  if (output.count != input.count * size)
    Reject(ErrorKind::kInvalidArgument, group,
           absl::StrCat("all_gather: output has ", output.count, " elements; give it ",
                        input.count * size, ", which is world size times those of the input"));
  const auto* out = static_cast<const uint8_t*>(output.data);
  const auto* in = static_cast<const uint8_t*>(input.data);
  const std::less<const uint8_t*> before;
  if (input.bytes > 0 && before(in, out + output.bytes) && before(out, in + input.bytes))
    Reject(ErrorKind::kInvalidArgument, group,
           "all_gather: output and input overlap; give separate arrays");
}

}  // namespace

Work::Work(std::unique_ptr<PendingWork> pending) : pending_(std::move(pending)) {}
Work::Work(Work&&) noexcept = default;
Work& Work::operator=(Work&&) noexcept = default;
Work::~Work() = default;

void Work::wait() { pending_->Wait(); }
bool Work::is_completed() const { return pending_->done(); }

Work all_reduce_async(MutableElements data, ReduceOp op, const ProcessGroup& group) {
  JoinedGroup& member = MemberOf(group);
  if (data.type != DataType::kFloat32)
    Reject(ErrorKind::kUnsupported, member,
           absl::StrCat("all_reduce of ", NameOf(data.type),
                        " is not in this release; convert the elements to float"));
  const absl::Span<float> floats(static_cast<float*>(data.data), data.count);
  return Start(member, [floats, op = InEngine(op)](engine::Group& engine) {
    return engine.AllReduce(floats, op);
  });
}

Work broadcast_async(MutableElements data, int src, const ProcessGroup& group) {
  JoinedGroup& member = MemberOf(group);
  const int root = member.RankOf(src);
  return Start(member, [bytes = Bytes(data), root](engine::Group& engine) {
    return engine.Broadcast(bytes, root);
  });
}

Work all_gather_async(MutableElements output, Elements input, const ProcessGroup& group) {
  JoinedGroup& member = MemberOf(group);
  CheckGather(member, output, input);
  return Start(member, [from = Bytes(input), to = Bytes(output)](engine::Group& engine) {
    return engine.AllGather(from, to);
  });
}

Work barrier_async(const ProcessGroup& group) {
  JoinedGroup& member = MemberOf(group);
  const size_t size = static_cast<size_t>(member.options().size);
  auto memory = std::make_unique<std::vector<uint8_t>>(size + 1);
  const absl::Span<uint8_t> all = absl::MakeSpan(*memory);
  return Start(
      member,
      [all](engine::Group& engine) {
        return engine.AllGather(all.last(1), all.first(all.size() - 1));
      },
      std::move(memory));
}

void all_reduce(MutableElements data, ReduceOp op, const ProcessGroup& group) {
  all_reduce_async(data, op, group).wait();
}

void broadcast(MutableElements data, int src, const ProcessGroup& group) {
  broadcast_async(data, src, group).wait();
}

void all_gather(MutableElements output, Elements input, const ProcessGroup& group) {
  all_gather_async(output, input, group).wait();
}

void barrier(const ProcessGroup& group) { barrier_async(group).wait(); }

void monitored_barrier(const ProcessGroup& group,
                       std::optional<std::chrono::milliseconds> timeout) {
  JoinedGroup& member = MemberOf(group);
  member.MonitoredBarrier(timeout ? absl::FromChrono(*timeout) : member.options().timeout);
}

}  // namespace dp::distributed
