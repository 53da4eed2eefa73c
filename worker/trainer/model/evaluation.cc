#include "worker/trainer/model/evaluation.h"

#include <array>

#include "base/status.h"
#include "worker/engine/data/prefetch.h"
#include "worker/engine/data/sampler.h"

namespace dp::trainer {
namespace {

// Sums over samples, which add up over ranks. Counts are exact in a double.
struct Totals {
  double loss = 0;
  double correct = 0;
  double samples = 0;
  double counted = 0;  // labels that are not ignored
  double weight = 0;   // of the labels
};

absl::StatusOr<Totals> EvaluateShare(RankModel& model, const engine::Dataset& dataset,
                                     const engine::GlobalBatchSampler& sampler, int threads) {
  Totals sum;
  engine::Prefetch prefetch(dataset, sampler, /*first_step=*/0, /*first_draw=*/0, threads);
  while (const engine::Prefetch::Step* step = prefetch.Next()) {
    if (step->batch.count == 0) continue;  // the last global batch may be too short for all ranks
    const engine::BatchResult result = model.network->Forward(step->batch, engine::Mode::kEvaluate);
    const auto labels = static_cast<size_t>(result.count * dataset.labels_per_sample());
    const engine::LabelTotals totals =
        engine::TotalsOf(model.loss, step->batch.labels.first(labels));
    sum.loss += result.loss_sum;
    sum.correct += static_cast<double>(result.correct);
    sum.samples += static_cast<double>(result.count);
    sum.counted += static_cast<double>(totals.counted);
    sum.weight += totals.weight;
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
  DP_ASSIGN_OR_RETURN(Totals totals, EvaluateShare(model, dataset, sampler, prefetch_threads));
  DP_RETURN_IF_ERROR(model.device->status());
  std::array<double, 5> sums = {totals.loss, totals.correct, totals.samples, totals.counted,
                                totals.weight};
  DP_RETURN_IF_ERROR(
      group.on_host().AllReduce(absl::MakeSpan(sums), engine::ReduceOp::kSum)->Wait());
  totals = {sums[0], sums[1], sums[2], sums[3], sums[4]};
  Evaluation evaluation = {.loss = totals.loss / totals.weight,
                           .samples = static_cast<int64_t>(totals.samples)};
  if (std::holds_alternative<engine::CrossEntropyLoss>(model.loss) && totals.counted > 0) {
    evaluation.accuracy = totals.correct / totals.counted;
  }
  return evaluation;
}

}  // namespace dp::trainer
