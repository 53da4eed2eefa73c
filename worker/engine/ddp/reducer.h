#pragma once

#include <memory>
#include <string>
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
  // Of a device: the host cannot add to them or set them.
  bool gradients_on_device = false;
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
// The gradients may lie on a device where the group's operations take its memory: on a whole step
// the reducer touches none of them. It then waits for the device only where the host is a step
// ahead, and what EndBackward answers is ordered on the device's stream and not known to be good
// before Settle. Accumulating and unused parameters need the host's memory, and are refused.
// Group, layout and gradients outlive it. Not thread-safe.
class Reducer {
 public:
  enum class Sync { kYes, kNo };

  Reducer(Group& group, const ParameterLayout& layout, absl::Span<float> gradients,
          const ReducerOptions& options = {}, const Clock& clock = Clock::Steady());

  void BeginBackward(Sync sync);
  // The gradient of parameter `index` is complete, and until EndBackward the reducer's. Once a
  // parameter and backward.
  void GradientReady(int index);
  // Waits for all buckets: on a device, for its stream. With Sync::kYes the gradients are then the
  // mean over ranks, the same bits on all of them. Errors: FailedPrecondition names the parameters
  // that got no gradient and the option; Unimplemented what gradients on a device cannot have; the
  // group's errors, on a device maybe those of the step
  // before. After an error the gradients must not be used.
  absl::Status EndBackward();
  // Waits until the buckets of the last backward have ended. Before it has answered Ok, nothing
  // that was computed from the gradients may be saved or told. On the CPU it has nothing to wait
  // for.
  absl::Status Settle();

  // Of the latest backward with Sync::kYes; complete once that was settled.
  const Trace& trace() const { return trace_; }

 private:
  absl::Span<float> GradientOf(int parameter) const;
  std::string NamesOf(absl::Span<const int> parameters) const;
  void Launch(int bucket);
  absl::Status CompleteUnready();
  absl::Status OrderBuckets();
  void Record(TraceEvent::What what, int bucket = -1);

  Group& group_;
  const ParameterLayout& layout_;
  const absl::Span<float> gradients_;
  const ReducerOptions options_;
  const Clock& clock_;
  BucketSchedule schedule_;
  Sync sync_ = Sync::kYes;
  std::vector<float> accumulated_;  // of the backwards with Sync::kNo; empty when there were none
  std::vector<std::unique_ptr<Work>> works_;    // by bucket, as far as launched
  std::vector<std::unique_ptr<Work>> ordered_;  // of the backward that has ended, until settled
  Trace trace_;
};

}  // namespace dp::engine
