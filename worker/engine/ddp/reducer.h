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
  // Parameters that got no gradient count as zero, instead of being an error.
  bool find_unused_parameters = false;
  // Of a device: the host cannot add to them or set them.
  bool gradients_on_device = false;
};

// Averages the ranks' gradients in place, bucket by bucket, while backward still runs:
//
//   reducer.BeginBackward(Reducer::Sync::kYes);
//   network.Backward(scale, [&](int parameter) { reducer.GradientReady(parameter); });
//   DP_RETURN_IF_ERROR(reducer.EndBackward());          // gradients: their mean over ranks
//
// Ranks with unequal shares scale their own gradients first (GradientScale in data/sampler.h).
// To accumulate over several backwards, all but the last are begun with Sync::kNo: their gradients
// are kept aside, and added before the last one's are reduced.
// The gradients may lie on a device where the group's operations take its memory: on a whole step
// the reducer touches none of them, and waits for the device only in Settle. Backwards may follow
// each other before they are settled, oldest first. Accumulating and unused parameters need the
// host's memory, and are refused.
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
  // Waits for all buckets; on a device its stream does, and the host goes on. With Sync::kYes the
  // gradients are then the mean over ranks, the same bits on all of them; `then`, where given, is
  // called for each bucket in order as soon as that is so of its range, and for none after an
  // error. Errors: FailedPrecondition names the parameters that got no gradient and the option;
  // Unimplemented what gradients on a device cannot have; those of the group and of `then`. After
  // an error the gradients must not be used, and nothing is left to settle.
  using Then = std::function<absl::Status(const Bucket&)>;
  absl::Status EndBackward(const Then& then = nullptr);
  // Waits until the buckets of the oldest backward that is not settled have ended. Before it has
  // answered Ok, nothing that was computed from those gradients may be saved or told. Where none is
  // left, as on the CPU, it has nothing to wait for.
  absl::Status Settle();

  const std::vector<Bucket>& buckets() const { return schedule_.plan(); }
  // Of the backward that was settled last.
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
  std::vector<float> accumulated_;  // of the backwards with Sync::kNo; empty when there were none
  // One backward with Sync::kYes.
  struct Backward {
    std::vector<std::unique_ptr<Work>> works;  // by bucket, as far as launched
    Trace trace;
  };
  Backward backward_;               // since its beginning
  std::deque<Backward> unsettled_;  // have ended, oldest first
  Trace trace_;
};

}  // namespace dp::engine
