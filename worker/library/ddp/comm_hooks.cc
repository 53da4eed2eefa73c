#include "worker/library/ddp/comm_hooks.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "worker/engine/collectives/reduce/convert.h"
#include "worker/library/in_engine.h"

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
  explicit Travelling(MutableElements gradients, DataType type)
      : bytes(gradients.count * element_size(type)), copy(bytes.data(), gradients.count, type) {}

  std::vector<uint8_t> bytes;
  MutableElements copy;
  std::unique_ptr<Work> work;  // ends before the memory does
};

}  // namespace

CommHook AllReduceAs(DataType type) {
  return [type](const GradientBucket& bucket) -> std::function<void()> {
    if (bucket.gradients.type == type) return distributed::allreduce_hook(bucket);
    auto travelling = std::make_shared<Travelling>(bucket.gradients, type);
    engine::Convert(InEngine(distributed::Elements(bucket.gradients)), InEngine(travelling->copy));
    travelling->work = std::make_unique<Work>(
        distributed::all_reduce_async(travelling->copy, ReduceOp::kAvg, bucket.group));
    return [travelling, gradients = bucket.gradients] {
      travelling->work->wait();
      engine::Convert(InEngine(distributed::Elements(travelling->copy)), InEngine(gradients));
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
