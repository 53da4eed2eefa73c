#pragma once

#include <deque>
#include <functional>
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
  // Counts a parameter without a gradient as zero, instead of reporting an error.
  bool find_unused_parameters = false;
  // The gradients lie on a device: the host can neither add to them nor set them.
  bool gradients_on_device = false;
};

// Averages the ranks' gradients in place, bucket by bucket, while backward still runs:
//
//   reducer.BeginBackward(Reducer::Sync::kYes);
//   network.Backward(scale, [&](int parameter) { reducer.GradientReady(parameter); });
//   DP_RETURN_IF_ERROR(reducer.EndBackward());          // gradients: their mean over ranks
//
// Ranks with unequal shares scale their own gradients first (GradientScale in data/sampler.h).
// To accumulate over several backwards, begin all but the last with Sync::kNo. The reducer keeps
// their gradients aside, and adds them before it reduces the last backward's.
// If the group takes device memory, the gradients may lie on a device. During a whole step the
// reducer then touches none of them, and waits for the device only in Settle. Backwards may follow
// each other before they are settled, oldest first. Accumulation and unused parameters need host
// memory, and are rejected on a device.
// The group, the layout and the gradients outlive the reducer. Not thread-safe.
class Reducer {
 public:
  enum class Sync { kYes, kNo };

  Reducer(Group& group, const ParameterLayout& layout, absl::Span<float> gradients,
          const ReducerOptions& options = {}, const Clock& clock = Clock::Steady());

  // The order of sums of all later backwards; a tree at first. All ranks must use the same.
  void SetOrder(ReduceOrder order) { order_ = order; }

  void BeginBackward(Sync sync);
  // The gradient of parameter `index` is complete, and belongs to the reducer until EndBackward.
  // Call it once for each parameter and backward.
  void GradientReady(int index);
  // Waits for all buckets; on a device, its stream waits and the host goes on. With Sync::kYes the
  // gradients are then the mean over ranks, with the same bits on all of them. If given, `then` is
  // called for each bucket in order, as soon as the bucket's range holds the mean; not after an
  // error.
  // Errors: FailedPrecondition names the parameters without a gradient and the option;
  // Unimplemented accumulation or unused parameters on a device. Also those of the group and of
  // `then`. After an error the gradients must not be used; with Sync::kYes nothing is left to
  // settle.
  using Then = std::function<absl::Status(const Bucket&)>;
  absl::Status EndBackward(const Then& then = nullptr);
  // Waits until the buckets of the oldest unsettled backward have ended. Until this returns Ok,
  // nothing computed from those gradients may be saved or reported. A no-op if no backward is left,
  // as on the CPU.
  absl::Status Settle();

  const std::vector<Bucket>& buckets() const { return schedule_.plan(); }
  // The trace of the backward that was settled last.
  const Trace& trace() const { return trace_; }

 private:
  absl::Span<float> GradientOf(int parameter) const;
  std::string NamesOf(absl::Span<const int> parameters) const;
  void Launch(int bucket);
  absl::Status CompleteUnready();
  absl::Status Accumulate(absl::Status status);
  absl::Status OrderBuckets(const absl::Status& before, const Then& then);
  bool ended() const;
  void Record(TraceEvent::What what, int bucket = -1);

  Group& group_;
  const ParameterLayout& layout_;
  const absl::Span<float> gradients_;
  const ReducerOptions options_;
  const Clock& clock_;
  BucketSchedule schedule_;
  Sync sync_ = Sync::kYes;
  ReduceOrder order_ = ReduceOrder::kTree;
  std::vector<float> accumulated_;  // sum over the backwards with Sync::kNo; empty if none
  // One backward with Sync::kYes.
  struct Backward {
    std::vector<std::unique_ptr<Work>> works;  // by bucket, as far as launched
    Trace trace;
  };
  Backward backward_;               // not yet ended
  std::deque<Backward> unsettled_;  // ended, oldest first
  Trace trace_;
};

}  // namespace dp::engine
