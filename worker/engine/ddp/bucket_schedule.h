#pragma once

#include <vector>

#include "worker/engine/ddp/bucket_plan.h"

namespace dp::engine {

// Decides which buckets may launch as gradients become ready. Buckets launch in plan order,
// whatever the order of readiness, because every rank must launch the same buckets in the same
// order. Pure; one backward at a time. Not thread-safe.
class BucketSchedule {
 public:
  explicit BucketSchedule(std::vector<Bucket> plan);

  // Starts a new backward: forgets all gradients.
  void Begin();
  // Marks a parameter's gradient ready; at most once for each parameter since Begin. Returns the
  // buckets that may launch now, in order: they are complete, and so are all before them.
  std::vector<int> Ready(int parameter);

  const std::vector<Bucket>& plan() const { return plan_; }
  // Parameters without a gradient since Begin, in order.
  std::vector<int> Unready() const;

 private:
  const std::vector<Bucket> plan_;
  std::vector<int> bucket_of_;  // by parameter
  std::vector<bool> ready_;     // by parameter
  std::vector<int> waiting_;    // by bucket: parameters that are not ready
  int next_ = 0;                // the first bucket that has not launched
};

}  // namespace dp::engine
