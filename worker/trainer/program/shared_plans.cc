#include "worker/trainer/program/shared_plans.h"

#include <string>
#include <utility>

#include "base/status.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/nccl/nccl_api.h"

namespace dp::trainer {
namespace {

constexpr char kPlansKey[] = "plans/0";

}  // namespace

absl::StatusOr<RankModel> SharedPlans::MakeModel(const TrainingPlan& plan,
                                                 const engine::Dataset& dataset, int batch_size,
                                                 std::unique_ptr<engine::Device> device) {
  const bool shared = world_size_ > 1 && device->stream() != nullptr;
  if (shared && rank_ > 0) DP_RETURN_IF_ERROR(TakePlansOfRankZero(*device));
  const int blocks = world_size_ > 1 ? engine::kCtasBesideBackward : 0;
  DP_ASSIGN_OR_RETURN(RankModel model, MakeRankModel(plan, dataset, batch_size, std::move(device),
                                                     {.collective_blocks = blocks}));
  if (shared && rank_ == 0) DP_RETURN_IF_ERROR(store_.Set(kPlansKey, model.device->plans()));
  return model;
}

absl::Status SharedPlans::TakePlansOfRankZero(engine::Device& device) {
  const absl::StatusOr<std::string> plans = store_.Get(kPlansKey, timeout_);
  if (absl::IsDeadlineExceeded(plans.status())) {
    return engine::DidNotArrive("plans of the model", {0}, timeout_);
  }
  DP_RETURN_IF_ERROR(plans.status());
  device.TakePlans(*plans);
  return absl::OkStatus();
}

}  // namespace dp::trainer
