#include "worker/trainer/model/evaluation.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/status.h"
#include "worker/engine/collectives/reduce/ordered_reduce.h"
#include "worker/engine/data/prefetch.h"
#include "worker/engine/data/sampler.h"

namespace dp::trainer {
namespace {

// The sums of a rank's samples, which add up over ranks: a few for the loss and the accuracy, and
// those of the measures.
struct EvaluationSums {
  enum { kLoss, kCorrect, kSamples, kCounted, kWeight, kCount };
  std::vector<double> basic = std::vector<double>(kCount);  // counts are exact in a double
  engine::MeasureSums measures;

  // All sums in a row, and back.
  std::vector<double> Flat() {
    const absl::Span<double> more = measures.sums();
    std::vector<double> all = basic;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void Take(absl::Span<const double> all) {
    std::copy(all.begin(), all.begin() + kCount, basic.begin());
    std::copy(all.begin() + kCount, all.end(), measures.sums().begin());
  }
};

engine::GlobalBatchSampler TestSampler(const engine::Dataset& dataset, int global_batch_size,
                                       int rank, int ranks) {
  return engine::GlobalBatchSampler({.n = dataset.size(),
                                     .global_batch_size = global_batch_size,
                                     .rank = rank,
                                     .world_size = ranks,
                                     .shuffle = false});
}

bool HasLabels(const RankModel& model) {
  return std::holds_alternative<engine::CrossEntropyLoss>(model.loss);
}

// Texts have their perplexity in place of the top five, as they have a row for each token.
engine::MeasureOptions MeasuresFor(const RankModel& model, const engine::Dataset& dataset,
                                   const EvaluationOptions& options) {
  const model::Shape& out = model.layers.back().out;
  if (!HasLabels(model)) {
    const bool targets = engine::HasTargets(model.loss);
    return {.columns = static_cast<int>(model::ElementCount(out)),
            .absolute_error = targets,
            .r2 = targets && dataset.target_shape().size() == 1};
  }
  const auto columns = static_cast<int>(out.back());
  return {.columns = columns,
          .ignored = std::get<engine::CrossEntropyLoss>(model.loss).ignored,
          .top5 = columns > 5 && !dataset.of_tokens(),
          .confusion = options.confusion};
}

// Adds one batch of which the network has computed the outputs.
void AddBatch(const RankModel& model, const engine::MeasureOptions& measures, int64_t rows,
              const engine::Batch& batch, std::vector<float>& outputs, engine::MeasureSums& sums) {
  if (sums.sums().empty()) return;
  const auto outputs_of_sample = static_cast<size_t>(model::ElementCount(model.layers.back().out));
  outputs.resize(batch.samples.size() * outputs_of_sample);
  model.network->ReadLogits(absl::MakeSpan(outputs));
  sums.Add({.outputs = outputs,
            .columns = measures.columns,
            .rows = rows,
            .labels = batch.labels,
            .targets = batch.targets});
}

absl::StatusOr<EvaluationSums> EvaluateShare(RankModel& model, const engine::Dataset& dataset,
                                             const engine::GlobalBatchSampler& sampler,
                                             const EvaluationOptions& options) {
  const engine::MeasureOptions measures = MeasuresFor(model, dataset, options);
  EvaluationSums sum = {.measures = engine::MeasureSums(measures)};
  std::vector<float> outputs;
  engine::Prefetch prefetch(dataset, sampler, /*first_step=*/0, /*first_draw=*/0,
                            options.prefetch_threads);
  while (const engine::Prefetch::Step* step = prefetch.Next()) {
    if (step->batch.count == 0) continue;  // the last global batch may be too short for all ranks
    const engine::BatchResult result = model.network->Forward(step->batch, engine::Mode::kEvaluate);
    const int64_t rows = result.count * dataset.labels_per_sample();
    const engine::LabelTotals totals = engine::TotalsOf(model.loss, rows, step->batch.labels);
    sum.basic[EvaluationSums::kLoss] += result.loss_sum;
    sum.basic[EvaluationSums::kCorrect] += static_cast<double>(result.correct);
    sum.basic[EvaluationSums::kSamples] += static_cast<double>(result.count);
    sum.basic[EvaluationSums::kCounted] += static_cast<double>(totals.counted);
    sum.basic[EvaluationSums::kWeight] += totals.weight;
    AddBatch(model, measures, rows, step->batch, outputs, sum.measures);
  }
  DP_RETURN_IF_ERROR(prefetch.status());
  DP_RETURN_IF_ERROR(model.device->status());
  return sum;
}

Evaluation EvaluationOf(const EvaluationSums& sums, const RankModel& model,
                        const engine::Dataset& dataset) {
  const std::vector<double>& basic = sums.basic;
  const double counted = basic[EvaluationSums::kCounted];
  Evaluation evaluation = {.loss = basic[EvaluationSums::kLoss] / basic[EvaluationSums::kWeight],
                           .samples = static_cast<int64_t>(basic[EvaluationSums::kSamples]),
                           .measures = sums.measures.Result()};
  if (!HasLabels(model)) return evaluation;
  if (counted > 0) evaluation.accuracy = basic[EvaluationSums::kCorrect] / counted;
  if (dataset.of_tokens()) evaluation.perplexity = std::exp(evaluation.loss);
  return evaluation;
}

}  // namespace

absl::StatusOr<Evaluation> Evaluate(RankModel& model, const engine::Dataset& dataset,
                                    int global_batch_size, engine::Group& group,
                                    const EvaluationOptions& options) {
  const engine::GlobalBatchSampler sampler =
      TestSampler(dataset, global_batch_size, group.rank(), group.size());
  DP_ASSIGN_OR_RETURN(EvaluationSums sums, EvaluateShare(model, dataset, sampler, options));
  std::vector<double> all = sums.Flat();
  DP_RETURN_IF_ERROR(
      group.on_host().AllReduce(absl::MakeSpan(all), engine::ReduceOp::kSum)->Wait());
  sums.Take(all);
  return EvaluationOf(sums, model, dataset);
}

absl::StatusOr<Evaluation> EvaluateAlone(RankModel& model, const engine::Dataset& dataset,
                                         int global_batch_size, int ranks,
                                         const EvaluationOptions& options) {
  std::vector<std::vector<double>> of_rank;
  std::optional<EvaluationSums> sums;
  for (int rank = 0; rank < ranks; ++rank) {
    const engine::GlobalBatchSampler sampler = TestSampler(dataset, global_batch_size, rank, ranks);
    absl::StatusOr<EvaluationSums> share = EvaluateShare(model, dataset, sampler, options);
    DP_RETURN_IF_ERROR(share.status());
    of_rank.push_back(share->Flat());
    sums.emplace(*std::move(share));
  }
  std::vector<const void*> inputs;
  for (const std::vector<double>& each : of_rank) inputs.push_back(each.data());
  std::vector<double> all(of_rank[0].size());
  engine::ReduceInOrder(inputs, engine::DataTypeOf<double>(), all.size(), engine::ReduceOp::kSum,
                        all.data());
  sums->Take(all);
  return EvaluationOf(*sums, model, dataset);
}

}  // namespace dp::trainer
