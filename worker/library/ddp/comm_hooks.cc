#include "worker/library/ddp/comm_hooks.h"

#include <memory>
#include <utility>

#include "worker/library/joined_group.h"

namespace dp::library {
namespace {

using distributed::CommHook;
using distributed::DataType;
using distributed::GradientBucket;
using distributed::MutableElements;
using distributed::ReduceOp;
using distributed::Work;

// A copy of a bucket in the type in which it travels, and the all-reduce of it.
struct Travelling {
  Travelling(GroupMemory& memory, const MutableElements& gradients, DataType type)
      : bytes(memory.Borrow(gradients.count * element_size(type))),
        copy(bytes->data(), gradients.count, type) {}

  const BorrowedMemory bytes;
  const MutableElements copy;
  std::unique_ptr<Work> work;  // ends before the memory does
};

}  // namespace

CommHook AllReduceAs(DataType type) {
  return [type](const GradientBucket& bucket) -> std::function<void()> {
    if (bucket.gradients.type == type) return distributed::allreduce_hook(bucket);
    GroupMemory& memory = MemberOf(bucket.group).memory();
    auto travelling = std::make_shared<Travelling>(memory, bucket.gradients, type);
    memory.Convert(bucket.gradients, travelling->copy);
    travelling->work = std::make_unique<Work>(
        distributed::all_reduce_async(travelling->copy, ReduceOp::kAvg, bucket.group));
    return [&memory, travelling, gradients = bucket.gradients] {
      travelling->work->wait();
      memory.Convert(travelling->copy, gradients);
    };
  };
}

}  // namespace dp::library

namespace dp::distributed {

std::function<void()> allreduce_hook(const GradientBucket& bucket) {
  auto work =
      std::make_shared<Work>(all_reduce_async(bucket.gradients, ReduceOp::kAvg, bucket.group));
  return [work] { work->wait(); };
}

std::function<void()> fp16_compress_hook(const GradientBucket& bucket) {
  return library::AllReduceAs(DataType::kFloat16)(bucket);
}

std::function<void()> bf16_compress_hook(const GradientBucket& bucket) {
  return library::AllReduceAs(DataType::kBfloat16)(bucket);
}

}  // namespace dp::distributed
