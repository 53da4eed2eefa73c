#include "worker/trainer/model/evaluation.h"

#include <array>

#include "base/status.h"
#include "worker/engine/data/prefetch.h"
#include "worker/engine/data/sampler.h"

namespace dp::trainer {
namespace {

absl::StatusOr<engine::BatchResult> EvaluateShare(engine::Network& network,
                                                  const engine::Dataset& dataset,
                                                  const engine::GlobalBatchSampler& sampler,
                                                  int threads) {
  engine::BatchResult sum;
  engine::Prefetch prefetch(dataset, sampler, /*first_step=*/0, /*first_draw=*/0, threads);
  while (const engine::Prefetch::Step* step = prefetch.Next()) {
    if (step->batch.count == 0) continue;  // the last global batch may be too short for all ranks
    const engine::BatchResult result = network.Forward(step->batch, engine::Mode::kEvaluate);
    sum.loss_sum += result.loss_sum;
    sum.correct += result.correct;
    sum.count += result.count;
  }
  DP_RETURN_IF_ERROR(prefetch.status());
  return sum;
}

}  // namespace

absl::StatusOr<Evaluation> Evaluate(RankModel& model, const engine::Dataset& dataset,
                                    int global_batch_size, engine::Group& group,
                                    int prefetch_threads) {
  const engine::GlobalBatchSampler sampler({.n = dataset.size(),
                                            .global_batch_size = global_batch_size,
                                            .rank = group.rank(),
                                            .world_size = group.size(),
                                            .shuffle = false});
  DP_ASSIGN_OR_RETURN(const engine::BatchResult share,
                      EvaluateShare(*model.network, dataset, sampler, prefetch_threads));
  DP_RETURN_IF_ERROR(model.device->status());
  // Counts stay exact in a float below 2^24 samples.
  std::array<float, 3> totals = {static_cast<float>(share.loss_sum),
                                 static_cast<float>(share.correct),
                                 static_cast<float>(share.count)};
  DP_RETURN_IF_ERROR(
      group.on_host().AllReduce(absl::MakeSpan(totals), engine::ReduceOp::kSum)->Wait());
  const double labels =
      static_cast<double>(totals[2]) * static_cast<double>(dataset.labels_per_sample());
  Evaluation evaluation = {.loss = totals[0] / labels, .samples = static_cast<int64_t>(totals[2])};
  if (std::holds_alternative<engine::CrossEntropyLoss>(model.loss)) {
    evaluation.accuracy = totals[1] / labels;
  }
  return evaluation;
}

}  // namespace dp::trainer
