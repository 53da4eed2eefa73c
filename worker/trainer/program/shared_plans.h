#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "store/store.h"
#include "worker/engine/device/device.h"
#include "worker/trainer/model/rank_model.h"

namespace dp::trainer {

// Makes all ranks of a generation compute in the same ways on devices that time several. Rank 0
// makes its model first and publishes its device's plans in the store. The other ranks wait for
// these plans and start from them. A run therefore does not depend on which rank timed last. A rank
// that is alone, or on a device with one way, such as the CPU, does not use the store.
class SharedPlans {
 public:
  // `store` outlives this. Nobody else uses its keys that begin with "plans/".
  SharedPlans(Store& store, int rank, int world_size, absl::Duration timeout)
      : store_(store), rank_(rank), world_size_(world_size), timeout_(timeout) {}

  // As MakeRankModel, for ranks that meet over NCCL. Every rank calls this once. Errors: also the
  // store's; DeadlineExceeded names rank 0, which has not made its model.
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
