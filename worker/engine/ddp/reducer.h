#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/ddp/bucket_schedule.h"
#include "worker/engine/ddp/trace.h"
#include "worker/engine/nn/parameter.h"

namespace dp::engine {

struct ReducerOptions {
  BucketPlanOptions buckets;
  // Parameters that got no gradient count as zero, instead of being an error.
  bool find_unused_parameters = false;
};

// Averages the ranks' gradients in place, bucket by bucket, while backward still runs:
//
//   reducer.BeginBackward(Reducer::Sync::kYes);
//   network.Backward(scale, [&](int parameter) { reducer.GradientReady(parameter); });
//   DP_RETURN_IF_ERROR(reducer.EndBackward());          // gradients: sum over ranks / world size
//
// Ranks with unequal shares scale their own gradients first (GradientScale in data/sampler.h).
// To accumulate over several backwards, all but the last are begun with Sync::kNo: their gradients
// are kept aside, and added before the last one's are reduced.
// Group, layout and gradients (the host's memory) outlive it. Not thread-safe.
class Reducer {
 public:
  enum class Sync { kYes, kNo };

  Reducer(Group& group, const ParameterLayout& layout, absl::Span<float> gradients,
          const ReducerOptions& options = {}, const Clock& clock = Clock::Steady());

  void BeginBackward(Sync sync);
  // The gradient of parameter `index` is complete, and until EndBackward the reducer's. Once a
  // parameter and backward.
  void GradientReady(int index);
  // Waits for all buckets. With Sync::kYes the gradients are then the mean over ranks, the same
  // bits on all of them. Errors: FailedPrecondition names the parameters that got no gradient and
  // the option; the group's errors. After an error the gradients must not be used.
  absl::Status EndBackward();

  // Of the latest backward with Sync::kYes.
  const Trace& trace() const { return trace_; }

 private:
  absl::Span<float> GradientOf(int parameter) const;
  void Launch(int bucket);
  absl::Status CompleteUnready();
  absl::Status WaitForBuckets();
  void Record(TraceEvent::What what, int bucket = -1);

  Group& group_;
  const ParameterLayout& layout_;
  const absl::Span<float> gradients_;
  const ReducerOptions options_;
  const Clock& clock_;
  BucketSchedule schedule_;
  Sync sync_ = Sync::kYes;
  std::vector<float> accumulated_;  // of the backwards with Sync::kNo; empty when there were none
  std::vector<std::unique_ptr<Work>> works_;  // by bucket, as far as launched
  Trace trace_;
};

}  // namespace dp::engine
