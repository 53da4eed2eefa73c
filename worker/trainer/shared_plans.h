#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/store/store.h"
#include "worker/engine/device/device.h"
#include "worker/trainer/rank_model.h"

namespace dp::trainer {

// How the ranks of a generation come to compute in the same ways, where a device has several and
// times them: rank 0 makes its model first and tells through the store what its device has found
// fastest; the others wait for that, and begin with it. So a run does not depend on which rank
// timed last. On devices that have one way, as the CPU, and for a rank that is alone, nobody waits
// and the store is not used.
class SharedPlans {
 public:
  // `store` outlives it; nobody else uses its keys that begin with "plans/".
  SharedPlans(Store& store, int rank, int world_size, absl::Duration timeout)
      : store_(store), rank_(rank), world_size_(world_size), timeout_(timeout) {}

  // As MakeRankModel. Every rank calls it, once. Errors: also the store's; DeadlineExceeded names
  // rank 0, which has not made its own.
  absl::StatusOr<RankModel> MakeModel(const TrainingPlan& plan, const engine::Dataset& dataset,
                                      int batch_size, std::unique_ptr<engine::Device> device);

 private:
  absl::Status TakePlansOfRankZero(engine::Device& device);

  Store& store_;
  const int rank_;
  const int world_size_;
  const absl::Duration timeout_;
};

}  // namespace dp::trainer
