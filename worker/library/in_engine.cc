#include "worker/library/in_engine.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "worker/engine/collectives/reduce/half_floats.h"
#include "worker/library/dist_error.h"
#include "worker/library/memory/overlap.h"
#include "worker/library/pending_work.h"

namespace dp::library {
namespace {

using distributed::DataType;
using distributed::DistError;
using distributed::ErrorKind;
using distributed::ReduceOp;

[[noreturn]] void Reject(const JoinedGroup& group, const std::string& why) {
  throw DistError(ErrorKind::kInvalidArgument, absl::StrCat(group.Context(), ": ", why));
}

// Errors: kLimit the bytes of the elements are more than a size_t holds.
void CheckBytes(const distributed::Elements& elements) {
  size_t bytes = 0;
  if (!__builtin_mul_overflow(elements.count, distributed::element_size(elements.type), &bytes))
    return;
  throw DistError(ErrorKind::kLimit, absl::StrCat("an array of ", elements.count, " elements of ",
                                                  distributed::element_size(elements.type),
                                                  " bytes is larger than any memory; give fewer"));
}

engine::ReduceOp OpInEngine(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return engine::ReduceOp::kSum;
    case ReduceOp::kAvg:
      return engine::ReduceOp::kMean;
    case ReduceOp::kMin:
      return engine::ReduceOp::kMin;
    case ReduceOp::kMax:
      return engine::ReduceOp::kMax;
    case ReduceOp::kProduct:
      return engine::ReduceOp::kProduct;
  }
  throw DistError(ErrorKind::kInvalidArgument,
                  absl::StrCat("reduce op ", static_cast<int>(op), " is unknown"));
}

}  // namespace

engine::DataType TypeInEngine(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return engine::DataType::kFloat32;
    case DataType::kFloat64:
      return engine::DataType::kFloat64;
    case DataType::kFloat16:
      return engine::DataType::kFloat16;
    case DataType::kBfloat16:
      return engine::DataType::kBfloat16;
    case DataType::kInt32:
      return engine::DataType::kInt32;
    case DataType::kInt64:
      return engine::DataType::kInt64;
    case DataType::kUint8:
      return engine::DataType::kUint8;
  }
  throw DistError(ErrorKind::kInvalidArgument,
                  absl::StrCat("element type ", static_cast<int>(type), " is unknown"));
}

engine::Elements InEngine(const distributed::MutableElements& elements) {
  CheckBytes(elements);
  return {TypeInEngine(elements.type), {static_cast<uint8_t*>(elements.data), elements.bytes}};
}

engine::ConstElements InEngine(const distributed::Elements& elements) {
  CheckBytes(elements);
  return {TypeInEngine(elements.type),
          {static_cast<const uint8_t*>(elements.data), elements.bytes}};
}

engine::ReduceOp InEngine(ReduceOp op, DataType type, const JoinedGroup& group) {
  const engine::DataType elements = TypeInEngine(type);
  if (op == ReduceOp::kAvg && !engine::IsFloat(elements))
    Reject(group, absl::StrCat("avg of ", engine::NameOf(elements),
                               "; an average is for floats: sum, and divide as you need"));
  return OpInEngine(op);
}

distributed::DataType TypeOutside(engine::DataType type) {
  for (const DataType each : {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16,
                              DataType::kBfloat16, DataType::kInt32, DataType::kInt64})
    if (TypeInEngine(each) == type) return each;
  return DataType::kUint8;
}

distributed::ReduceOp OpOutside(engine::ReduceOp op) {
  for (const ReduceOp each : {ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct})
    if (OpInEngine(each) == op) return each;
  return ReduceOp::kSum;
}

void CheckArray(const JoinedGroup& group, absl::string_view verb,
                const distributed::Elements& array) {
  if (array.data == nullptr && array.count > 0)
    Reject(group,
           absl::StrCat(verb, " of ", array.count, " elements whose memory is null; give memory"));
}

void CheckArrays(const JoinedGroup& group, absl::string_view verb,
                 const distributed::MutableElements& output, const distributed::Elements& input) {
  if (output.type != input.type)
    Reject(group,
           absl::StrCat(verb, " of ", engine::NameOf(TypeInEngine(input.type)), " into ",
                        engine::NameOf(TypeInEngine(output.type)), "; give arrays of one type"));
  if (Overlap(output, input))
    Reject(group, absl::StrCat(verb, ": output and input overlap; give separate arrays"));
}

void CheckCount(const JoinedGroup& group, absl::string_view verb, absl::string_view array,
                size_t count, size_t part, size_t parts) {
  size_t all = 0;
  if (__builtin_mul_overflow(part, parts, &all))
    throw DistError(ErrorKind::kLimit,
                    absl::StrCat(group.Context(), ": ", verb, ": ", parts, " parts of ", part,
                                 " elements are more than any memory holds; give fewer"));
  if (count == all) return;
  Reject(group, absl::StrCat(verb, ": ", array, " has ", count, " elements; give it ", all,
                             parts == 1 ? "" : ", a part for each rank"));
}

int CheckPeer(const JoinedGroup& group, absl::string_view verb, int peer, int tag) {
  const int rank = group.RankOf(peer);
  if (rank == group.options().rank)
    Reject(group,
           absl::StrCat(verb, " rank ", peer, ", which is this rank; copy the data instead"));
  if (tag < 0)
    Reject(group, absl::StrCat(verb, " rank ", peer, " with tag ", tag, "; give 0 or more"));
  return rank;
}

distributed::Work StartIn(JoinedGroup& group, const JoinedGroup::Begin& begin) {
  return distributed::Work(std::make_unique<PendingWork>(group.Start(begin), group.Context()));
}

distributed::Work StartIn(JoinedGroup& group, absl::string_view verb,
                          std::initializer_list<distributed::Elements> arrays,
                          const JoinedGroup::Begin& begin) {
  for (const distributed::Elements& array : arrays) CheckArray(group, verb, array);
  if (!group.nccl()) return StartIn(group, begin);
  const NcclUse& nccl = *group.nccl();
  if (!OrThrow(AreOnDevice(nccl, verb, arrays), ErrorSource::kCaller, group.Context()))
    return StartIn(group, [&](engine::Group& engine) { return begin(engine.on_host()); });
  if (nccl.blocking_wait) return StartIn(group, begin);
  return distributed::Work(
      std::make_unique<PendingWork>(group.Start(begin), group.Context(), nccl));
}

}  // namespace dp::library

namespace dp::distributed {

Float16::Float16(float value) : bits(engine::ToFloat16(value).bits) {}
Float16::operator float() const { return engine::ToFloat(engine::Float16{bits}); }
Bfloat16::Bfloat16(float value) : bits(engine::ToBfloat16(value).bits) {}
Bfloat16::operator float() const { return engine::ToFloat(engine::Bfloat16{bits}); }

}  // namespace dp::distributed
