#include "worker/trainer/loop/train_loop.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status.h"
#include "worker/trainer/fault_point.h"
#include "worker/trainer/side_work.h"

namespace dp::trainer {
namespace {

// Enough to see the pattern after the first steps' warm-up; a few hundred kilobytes.
constexpr int64_t kTracedSteps = 100;

}  // namespace

engine::GlobalBatchSampler TrainSampler(const TrainingPlan& plan, const engine::Dataset& dataset,
                                        int rank, int world_size) {
  return engine::GlobalBatchSampler({.n = dataset.size(),
                                     .global_batch_size = plan.global_batch_size,
                                     .rank = rank,
                                     .world_size = world_size,
                                     .shuffle = plan.shuffle,
                                     .seed = plan.seed,
                                     .drop_last = plan.drop_last});
}

int64_t StepsOfEpoch(const TrainingPlan& plan, const engine::GlobalBatchSampler& sampler) {
  return plan.steps_per_epoch == 0 ? sampler.steps() : plan.steps_per_epoch;
}

int64_t StepsTotal(const TrainingPlan& plan, const engine::GlobalBatchSampler& sampler) {
  const int64_t steps = StepsOfEpoch(plan, sampler) * plan.epochs;
  return plan.steps_max == 0 ? steps : std::min(steps, plan.steps_max);
}

TrainLoop::TrainLoop(const Parts& parts)
    : parts_(parts),
      steps_of_epoch_(StepsOfEpoch(parts.plan, parts.sampler)),
      steps_total_(StepsTotal(parts.plan, parts.sampler)),
      step_parts_(RowsOf(parts.plan, parts.sampler)) {}

absl::StatusOr<TrainingEnd> TrainLoop::Run() {
  parts_.progress.Started();
  parts_.reducer.SetOrder(parts_.progress.position().sum_order);
  const absl::StatusOr<TrainingEnd> end = RunEpochs();
  if (end.ok() && !stepped_) parts_.first_step_done();
  // The device's queue may wait for peers that will never answer. A loss that is not finite
  // ends all ranks at the same step, which their peers have answered.
  if (!end.ok() && !absl::IsOutOfRange(end.status())) parts_.group.Abort(end.status());
  return end;
}

absl::Status TrainLoop::StepDone(const engine::StepTail& tail, int64_t samples) {
  const engine::OptimizerStep step = OptimizerStepOf(parts_.progress.steps() + 1);
  StepReport report = {.loss = tail.loss,
                       .samples = samples,
                       .learning_rate = LearningRate(parts_.plan) * step.learning_rate_factor};
  if (parts_.plan.clip_norm > 0) {
    DP_RETURN_IF_ERROR(CheckFinite("norm of the gradients", tail.gradient_norm));
    report.gradient_norm = tail.gradient_norm;
  }
  Report(report);
  return absl::OkStatus();
}

void TrainLoop::Report(const StepReport& report) {
  parts_.progress.StepDone(report);
  if (!std::exchange(stepped_, true)) parts_.first_step_done();
}

absl::Status TrainLoop::SaveEnd() {
  if (parts_.saver == nullptr) return absl::OkStatus();
  const absl::Status saved = parts_.saver->SaveNow(parts_.progress.position());
  TellSaved();
  return saved;
}

// From a position at the end of an epoch, that epoch's report and evaluation are made again. The
// earlier run may have died before it made them.
absl::StatusOr<TrainingEnd> TrainLoop::RunEpochs() {
  if (parts_.model.outer) DP_RETURN_IF_ERROR(BeginRounds());
  const Progress& progress = parts_.progress;
  for (int epoch = std::max(1, progress.epoch()); epoch <= parts_.plan.epochs; ++epoch) {
    if (finished() && epoch != progress.epoch()) break;
    DP_RETURN_IF_ERROR(RunEpoch(epoch));
    if (leaving_) return TrainingEnd::kHandedOver;
    DP_RETURN_IF_ERROR(EvaluateAfter(epoch));
    if (StopsEarly()) break;
  }
  return TrainingEnd::kDone;
}

absl::Status TrainLoop::RunEpoch(int epoch) {
  parts_.progress.EpochBegan(epoch);
  const std::vector<engine::DeviceLoad> before = parts_.model.network->loads();
  while (!epoch_begun() && !finished() && !leaving_) DP_RETURN_IF_ERROR(RunPass());
  if (leaving_) return absl::OkStatus();
  parts_.progress.EpochDone();
  parts_.progress.DevicesDone(LoadsSince(before));
  return CheckWeights(absl::StrCat("epoch ", epoch));
}

std::vector<engine::DeviceLoad> TrainLoop::LoadsSince(
    const std::vector<engine::DeviceLoad>& before) const {
  std::vector<engine::DeviceLoad> loads = parts_.model.network->loads();
  for (size_t device = 0; device < loads.size(); ++device) {
    loads[device].samples -= before[device].samples;
    loads[device].busy -= before[device].busy;
  }
  return loads;
}

bool TrainLoop::epoch_begun() const {
  const Position& at = parts_.progress.position();
  return at.step_of_epoch + static_cast<int64_t>(begun_.size()) >= steps_of_epoch_;
}

absl::Status TrainLoop::RunPass() {
  const Position& at = parts_.progress.position();
  const int64_t step =
      (at.epoch - 1) * steps_of_epoch_ + at.step_of_epoch + static_cast<int64_t>(begun_.size());
  const int64_t steps_of_pass = parts_.sampler.steps();
  parts_.sampler.SetEpoch(static_cast<uint64_t>(step / steps_of_pass));
  const int64_t first_step = step % steps_of_pass;
  return parts_.program == nullptr ? RunSteps(first_step) : RunProgram(first_step);
}

absl::Status TrainLoop::RunSteps(int64_t first_step) {
  engine::Prefetch prefetch(parts_.train_set, parts_.sampler, first_step,
                            static_cast<uint64_t>(steps_begun()),
                            parts_.plan.data.prefetch_threads);
  while (!epoch_begun() && !finished() && !leaving_) {
    const engine::Prefetch::Step* step = prefetch.Next();
    if (step == nullptr) return prefetch.status();
    DP_RETURN_IF_ERROR(parts_.model.outer ? RunLocalStep(*step) : RunStep(*step));
  }
  return absl::OkStatus();
}

// The loss does not show what the last step made of the weights, nor what a relu hides.
absl::Status TrainLoop::CheckWeights(absl::string_view after) const {
  DP_ASSIGN_OR_RETURN(const bool finite,
                      parts_.model.device->AllFinite(parts_.model.values->span()));
  if (finite) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(
      "the weights hold infinite values or no numbers after ", after,
      "; lower the learning rate, or look for values in the data that are out of scale"));
}

absl::Status TrainLoop::RunStep(const engine::Prefetch::Step& step) {
  ReachFaultPoint("step", parts_.progress.steps() + 1);
  DP_ASSIGN_OR_RETURN(const engine::StepTail averaged,
                      parts_.table == nullptr ? StepHere(step) : StepInTable(step));
  DP_RETURN_IF_ERROR(StepDone(averaged, step.global_count));
  // If no step is left, the training is done rather than handed over.
  leaving_ = averaged.leaving > 0 && !finished();
  if (parts_.saver != nullptr) {
    parts_.saver->StepDone(parts_.progress.position());
    TellSaved();
  }
  TraceStep();
  return absl::OkStatus();
}

absl::StatusOr<engine::StepTail> TrainLoop::StepInTable(const engine::Prefetch::Step& step) {
  DP_ASSIGN_OR_RETURN(const Computed computed, ComputeParts(step));
  // Before the table, whose values all ranks share, and whose versions stay.
  DP_RETURN_IF_ERROR(CheckFinite("loss", computed.loss_sum));
  DP_RETURN_IF_ERROR(BackwardOfLast(step, computed));
  ReachFaultPoint("push", parts_.progress.steps() + 1);
  DP_ASSIGN_OR_RETURN(const engine::StepTail tail,
                      parts_.table->Step(parts_.progress.position(), step.global_count));
  DP_RETURN_IF_ERROR(CheckFinite("loss", tail.loss));
  return tail;
}

absl::StatusOr<engine::StepTail> TrainLoop::StepHere(const engine::Prefetch::Step& step) {
  DP_RETURN_IF_ERROR(ComputeGradients(step));
  engine::StepTail averaged = parts_.model.ReadTail();
  // An aborted all-reduce leaves partial sums on the device. Nothing of the step may be used,
  // applied, reported or saved before the group confirms that all its collectives completed.
  DP_RETURN_IF_ERROR(parts_.reducer.Settle());
  DP_RETURN_IF_ERROR(parts_.model.device->status());
  DP_RETURN_IF_ERROR(CheckFinite("loss", averaged.loss));
  parts_.model.optimizer->Step(OptimizerStepOf(parts_.progress.steps() + 1));
  if (parts_.plan.clip_norm > 0) averaged.gradient_norm = parts_.model.optimizer->gradient_norm();
  DP_RETURN_IF_ERROR(parts_.model.device->status());
  return averaged;
}

void TrainLoop::TraceStep() {
  if (parts_.trace == nullptr || parts_.progress.steps() > kTracedSteps) return;
  *parts_.trace += engine::TraceJsonLines(parts_.reducer.trace(), parts_.progress.steps());
}

void TrainLoop::TellSaved() {
  for (const v1::Metric& metric : parts_.saver->TakeReports()) parts_.progress.Tell(metric);
}

absl::Status TrainLoop::ComputeGradients(const engine::Prefetch::Step& step) {
  DP_ASSIGN_OR_RETURN(const Computed computed, ComputeParts(step));
  return BackwardOfLast(step, computed);
}

absl::StatusOr<TrainLoop::Computed> TrainLoop::ComputeParts(const engine::Prefetch::Step& step) {
  RankModel& model = parts_.model;
  engine::Batch share = step.batch;
  DP_ASSIGN_OR_RETURN(share.loss_factor, LossFactorOf(step));
  const int last = PartsOf(step) - 1;
  Computed computed{.accumulated = last > 0};
  for (int part = 0; part <= last; ++part) {
    const engine::Batch batch = step_parts_.PartOf(share, part);
    computed.loss_sum += model.network->Forward(batch, engine::Mode::kTrain).loss_sum;
    if (part == last) break;
    model.network->Backward(ScaleOf(step), [](int) {});
    const auto size = static_cast<size_t>(model.layout.size);
    model.device->Accumulate(model.gradients->span().first(size), /*first=*/part == 0,
                             model.accumulated->span());
  }
  computed.loss_sum *= share.loss_factor;
  return computed;
}

// Layers that normalize over all ranks are collectives. Each rank therefore computes as many parts
// as the one with the largest share.
int TrainLoop::PartsOf(const engine::Prefetch::Step& step) const {
  if (!HasSyncNorm(parts_.model.layers)) return step_parts_.CountOf(step.batch);
  const int64_t ranks = parts_.group.size();
  return step_parts_.CountFor((step.global_count + ranks - 1) / ranks);
}

// The scale divides by the labels of the global batch. If labels weigh differently, the mean
// divides by the sum of their weights instead, which no rank knows by itself.
absl::StatusOr<float> TrainLoop::LossFactorOf(const engine::Prefetch::Step& step) {
  const engine::Loss& loss = parts_.model.loss;
  if (!engine::WeighsLabels(loss)) return 1.0f;
  const int64_t labels_of_sample = parts_.train_set.labels_per_sample();
  double weight =
      engine::TotalsOf(loss, step.batch.count * labels_of_sample, step.batch.labels).weight;
  DP_RETURN_IF_ERROR(
      parts_.group.on_host().AllReduce(absl::MakeSpan(&weight, 1), engine::ReduceOp::kSum)->Wait());
  if (weight > 0) {
    return static_cast<float>(static_cast<double>(step.global_count * labels_of_sample) / weight);
  }
  return absl::OutOfRangeError(absl::StrCat(
      "no label of step ", parts_.progress.steps() + 1, " of epoch ", parts_.progress.epoch(),
      " counts: each is train.loss.crossEntropy.ignoreIndex or has a weight of 0 in classWeights, "
      "so the loss has no mean; raise train.globalBatchSize, or set train.data.dropLast"));
}

// Scales a rank's share so that the mean over ranks is the mean over the global batch, of images or
// of tokens (sampler.h). The loss is averaged in the same way, as one more gradient.
absl::Status TrainLoop::BackwardOfLast(const engine::Prefetch::Step& step,
                                       const Computed& computed) {
  const float scale = ScaleOf(step);
  parts_.model.WriteTail({.loss = static_cast<float>(computed.loss_sum) * scale,
                          .leaving = parts_.asked_to_leave() ? 1.0f : 0.0f});
  const bool reduces = parts_.table == nullptr;
  if (reduces) parts_.reducer.BeginBackward(engine::Reducer::Sync::kYes);
  parts_.model.network->Backward(scale, [this, &computed, reduces](int index) {
    if (computed.accumulated) AddAccumulated(index);
    if (reduces) parts_.reducer.GradientReady(index);
  });
  DP_RETURN_IF_ERROR(parts_.model.device->status());
  if (!reduces) return absl::OkStatus();
  parts_.reducer.GradientReady(static_cast<int>(parts_.model.layout.parameters.size()));
  ReachFaultPoint("all-reduce", parts_.progress.steps() + 1);
  return parts_.reducer.EndBackward();
}

void TrainLoop::AddAccumulated(int index) {
  RankModel& model = parts_.model;
  const engine::Parameter& parameter = model.layout.parameters[index];
  const auto first = static_cast<size_t>(parameter.offset);
  const auto size = static_cast<size_t>(parameter.size);
  model.device->Accumulate(model.accumulated->span().subspan(first, size), /*first=*/false,
                           model.gradients->span().subspan(first, size));
}

float TrainLoop::ScaleOf(const engine::Prefetch::Step& step) const {
  const int64_t labels = step.global_count * parts_.train_set.labels_per_sample();
  return engine::GradientScale(labels, parts_.group.size());
}

engine::OptimizerStep TrainLoop::OptimizerStepOf(int64_t number) const {
  return {.number = number,
          .learning_rate_factor = engine::LearningRateFactor(parts_.plan.schedule, number,
                                                             steps_of_epoch_, steps_total_)};
}

// Later steps cannot repair such a number. Every rank has the same one and fails at the same step;
// with a table, a rank looks at its own loss. A loss is checked before its gradients, which are not
// finite, spoil the weights. A norm is seen after the update, and the job fails before the spoilt
// weights are saved.
absl::Status TrainLoop::CheckFinite(absl::string_view what, double number) const {
  if (std::isfinite(number)) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("the ", what, " is ", number, " at step ",
                                            parts_.progress.steps() + 1, " of epoch ",
                                            parts_.progress.epoch(),
                                            "; lower the learning rate, or look for values in the "
                                            "data that are out of scale"));
}

absl::Status TrainLoop::EvaluateAfter(int epoch) {
  const int every = parts_.plan.evaluate_every;
  const bool last = epoch == parts_.plan.epochs || finished();
  if (every == 0 || (epoch % every != 0 && !last)) return absl::OkStatus();
  DP_RETURN_IF_ERROR(MeetInTable());
  const int batch = EvaluationBatchOf(parts_.plan, parts_.sampler, parts_.group.size());
  DP_ASSIGN_OR_RETURN(const Evaluation evaluation, EvaluateResult(batch));
  Progress& progress = parts_.progress;
  progress.Evaluated(evaluation);
  if (const std::optional<EarlyStopPlan>& stop = parts_.plan.early_stop) {
    progress.Observed(Observe(*stop, progress.position().early_stop, evaluation, progress.steps()));
  }
  if (parts_.saver != nullptr) parts_.saver->Evaluated(progress.position(), evaluation);
  return absl::OkStatus();
}

// All ranks have the same state, so all stop after the same step.
bool TrainLoop::StopsEarly() const {
  if (!parts_.plan.early_stop || finished()) return false;
  const std::optional<std::string> why =
      WhyStopped(*parts_.plan.early_stop, parts_.progress.position().early_stop);
  if (!why) return false;
  parts_.progress.StoppedEarly(*why);
  parts_.stopped_early(*why);
  return true;
}

// Ranks that take their steps by themselves have different values until they meet.
absl::Status TrainLoop::MeetInTable() {
  if (parts_.table == nullptr) return absl::OkStatus();
  DP_RETURN_IF_ERROR(parts_.group.Barrier(parts_.plan.detect_within)->Wait());
  return parts_.table->Refresh();
}

// The network reads the weights, so the average takes their place meanwhile.
absl::StatusOr<Evaluation> TrainLoop::EvaluateResult(int batch) {
  const RankModel& model = parts_.model;
  const absl::Span<float> weights = model.values->span();
  std::vector<float> trained;
  if (model.average_evaluates) {
    DP_ASSIGN_OR_RETURN(trained, engine::ReadArray(*model.device, weights));
    DP_ASSIGN_OR_RETURN(const std::vector<float> average,
                        engine::ReadArray(*model.device, model.result()));
    model.device->Write(average, weights);
  }
  absl::StatusOr<Evaluation> evaluation =
      Evaluate(parts_.model, parts_.test_set, batch, parts_.group,
               {.prefetch_threads = parts_.plan.data.prefetch_threads,
                .confusion = parts_.plan.confusion_matrix});
  if (model.average_evaluates) model.device->Write(trained, weights);
  return evaluation;
}

absl::Status FinishTogether(engine::Group& group, absl::Duration meet_every,
                            const std::function<absl::Status()>& work) {
  std::optional<SideWork<absl::Status>> working;
  if (group.rank() == 0) working.emplace("finish", work);
  absl::Status met;
  float busy = 1.0f;
  while (met.ok() && busy > 0) {
    busy = working && !working->DoneWithin(meet_every) ? 1.0f : 0.0f;
    met = group.on_host().AllReduce(absl::MakeSpan(&busy, 1), engine::ReduceOp::kMax)->Wait();
  }
  return working ? working->Take() : met;
}

}  // namespace dp::trainer
