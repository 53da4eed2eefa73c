#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/library/ddp/bucket_shards.h"
#include "worker/library/ddp/module_reducer.h"
#include "worker/library/dist_error.h"
#include "worker/library/in_engine.h"

// How a bucket is averaged: by a hook, which is an all-reduce, the program's, or deals shares.

namespace dp::library {

using distributed::DistError;
using distributed::ErrorKind;

std::string ModuleReducer::HookName() const {
  return absl::StrCat(member().Context(), ": the communication hook");
}

void ModuleReducer::Launch(int bucket) {
  const engine::Bucket& range = layout_.buckets[bucket];
  const auto first = layout_.parameters.begin() + range.first_parameter;
  const distributed::GradientBucket given{
      .index = static_cast<size_t>(bucket),
      .is_last = static_cast<size_t>(bucket) + 1 == layout_.buckets.size(),
      .gradients = ElementsOf(range),
      .parameters = {first, first + range.parameters},
      .group = group_};
  std::function<void()> end = CallProgram(HookName(), [&] { return hook_(given); });
  if (!end)
    throw DistError(ErrorKind::kInvalidArgument,
                    absl::StrCat(HookName(),
                                 " returned an empty function; return one that ends the "
                                 "communication"));
  ends_.push_back(std::move(end));
}

void ModuleReducer::EndBucket(size_t bucket) { CallProgram(HookName(), ends_[bucket]); }

void ModuleReducer::CheckHookMayChange(absl::string_view call) const {
  if (shards_ || hook_is_given_) {
    const absl::string_view before = shards_ ? "ZeroRedundancyOptimizer" : "register_comm_hook";
    throw DistError(ErrorKind::kInvalidArgument, absl::StrCat(member().Context(), ": ", call,
                                                              " after ", before, "; choose one"));
  }
  if (options_.reduce_type) {
    throw DistError(
        ErrorKind::kInvalidArgument,
        absl::StrCat(member().Context(), ": ", call, " together with reduce_type; choose one"));
  }
  if (synced_once_ || progress_.begun()) {
    throw DistError(ErrorKind::kWrongState,
                    absl::StrCat(member().Context(), ": ", call,
                                 " after a backward; call it before the first"));
  }
}

void ModuleReducer::SetHook(distributed::CommHook hook) {
  CheckHookMayChange("register_comm_hook");
  CheckGiven(hook != nullptr, "register_comm_hook");
  hook_ = std::move(hook);
  hook_is_given_ = true;
}

std::shared_ptr<const void> ModuleReducer::ReduceToShards() {
  CheckHookMayChange("ZeroRedundancyOptimizer");
  if (options_.check_reduction) {
    throw DistError(ErrorKind::kInvalidArgument,
                    absl::StrCat(member().Context(),
                                 ": ZeroRedundancyOptimizer together with check_reduction, which "
                                 "compares whole gradients; choose one"));
  }
  for (const distributed::Parameter& parameter : parameters_) {
    if (parameter.values.type == distributed::DataType::kFloat32) continue;
    throw DistError(ErrorKind::kUnsupported,
                    absl::StrCat(member().Context(), ": ZeroRedundancyOptimizer: parameter ",
                                 parameter.name, " is not of float32"));
  }
  shards_ = true;
  layout_stays_ = true;
  hook_ = [this](const distributed::GradientBucket& bucket) {
    const BucketShard shard = ShardOf(layout_.buckets[bucket.index], group_.rank(), group_.size());
    const absl::Span<float> all(static_cast<float*>(bucket.gradients.data), shard.end);
    auto parts = std::make_shared<distributed::Work>(
        StartIn(member(), "reduce_scatter", {bucket.gradients}, [&](engine::Group& group) {
          return group.ReduceScatter(engine::ConstElements(all.subspan(0, shard.rest)),
                                     engine::Elements(all.subspan(shard.begin, shard.part)),
                                     engine::ReduceOp::kMean);
        }));
    auto rest = std::make_shared<distributed::Work>(
        StartIn(member(), "all_reduce", {bucket.gradients}, [&](engine::Group& group) {
          return group.AllReduce(engine::Elements(all.subspan(shard.rest)),
                                 engine::ReduceOp::kMean);
        }));
    return [parts, rest] {
      parts->wait();
      rest->wait();
    };
  };
  auto held = std::make_shared<const bool>(true);
  shards_held_ = held;
  return held;
}

}  // namespace dp::library
