// Steps of local SGD: each rank takes those of a round by itself, and all meet at the end of it.

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/engine/nn/outer_step.h"
#include "worker/trainer/fault_point.h"
#include "worker/trainer/loop/train_loop.h"

namespace dp::trainer {
namespace {

absl::Span<const uint8_t> BytesOf(absl::Span<const float> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)};
}

absl::Span<uint8_t> BytesOf(std::vector<float>& values) {
  return {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace

// A training that goes on at the end of an epoch may save once more before its first round ends.
absl::Status TrainLoop::BeginRounds() {
  RankModel& model = parts_.model;
  DP_CHECK(parts_.program == nullptr);
  DP_ASSIGN_OR_RETURN(model.outer->anchor, engine::ReadArray(*model.device, model.values->span()));
  model.outer->of_peers.clear();
  return parts_.progress.steps() > 0 ? GatherOptimizers() : absl::OkStatus();
}

// The gradient is scaled as for a mean over ranks, so that each sample counts alike where ranks
// have unequal shares.
absl::Status TrainLoop::RunLocalStep(const engine::Prefetch::Step& step) {
  RankModel& model = parts_.model;
  const int64_t number = steps_begun() + 1;
  ReachFaultPoint("step", number);
  round_leaving_ = parts_.asked_to_leave() || round_leaving_;
  DP_ASSIGN_OR_RETURN(const Computed computed, ComputeParts(step));
  const float scale = ScaleOf(step);
  model.network->Backward(scale, [this, &computed](int index) {
    if (computed.accumulated) AddAccumulated(index);
  });
  model.optimizer->Step(OptimizerStepOf(number));
  DP_RETURN_IF_ERROR(model.device->status());
  round_loss_ += computed.loss_sum * scale * static_cast<double>(step.global_count);
  begun_.push_back(step.global_count);
  return round_begun() ? EndRound() : absl::OkStatus();
}

bool TrainLoop::round_begun() const {
  const int64_t sync_every = parts_.plan.local_sgd->sync_every;
  return static_cast<int64_t>(begun_.size()) >= sync_every || epoch_begun() || finished();
}

absl::Status TrainLoop::EndRound() {
  DP_ASSIGN_OR_RETURN(const engine::StepTail averaged, ReduceRound());
  DP_RETURN_IF_ERROR(CheckFinite("mean loss of the round", averaged.loss));
  DP_RETURN_IF_ERROR(MoveAnchor());
  ReportRound(averaged);
  leaving_ = averaged.leaving > 0 && !finished();
  TraceStep();
  return SaveAfterRound();
}

// The outer gradients take the place of the gradients, and are averaged as those are.
absl::StatusOr<engine::StepTail> TrainLoop::ReduceRound() {
  RankModel& model = parts_.model;
  DP_ASSIGN_OR_RETURN(std::vector<float> outer,
                      engine::ReadArray(*model.device, model.values->span()));
  engine::OuterGradient(model.outer->anchor, absl::MakeSpan(outer));
  model.device->Write(outer, model.gradients->span().first(outer.size()));
  const auto samples =
      static_cast<double>(std::accumulate(begun_.begin(), begun_.end(), int64_t{0}));
  model.WriteTail(
      {.loss = static_cast<float>(round_loss_ / samples), .leaving = round_leaving_ ? 1.0f : 0.0f});
  parts_.reducer.BeginBackward(engine::Reducer::Sync::kYes);
  for (size_t i = 0; i < model.averaged.parameters.size(); ++i)
    parts_.reducer.GradientReady(static_cast<int>(i));
  ReachFaultPoint("all-reduce", steps_begun());
  DP_RETURN_IF_ERROR(parts_.reducer.EndBackward());
  const engine::StepTail averaged = model.ReadTail();
  DP_RETURN_IF_ERROR(parts_.reducer.Settle());
  DP_RETURN_IF_ERROR(model.device->status());
  return averaged;
}

// All ranks find the same anchor, and fail at the same step.
absl::Status TrainLoop::MoveAnchor() {
  RankModel& model = parts_.model;
  OuterState& outer = *model.outer;
  DP_ASSIGN_OR_RETURN(
      const std::vector<float> gradients,
      engine::ReadArray(*model.device, model.gradients->span().first(outer.anchor.size())));
  engine::OuterStep(parts_.plan.local_sgd->outer, model.layout, gradients,
                    absl::MakeSpan(outer.velocity), absl::MakeSpan(outer.anchor));
  model.device->Write(outer.anchor, model.values->span());
  return CheckWeights(absl::StrCat("the round that ends with step ", steps_begun()));
}

void TrainLoop::ReportRound(const engine::StepTail& averaged) {
  const engine::OptimizerStep last = OptimizerStepOf(steps_begun());
  const auto steps = static_cast<int64_t>(begun_.size());
  const auto bytes = parts_.model.averaged.size * static_cast<int64_t>(sizeof(float));
  const int64_t samples = std::accumulate(begun_.begin(), begun_.end(), int64_t{0});
  begun_.clear();
  round_loss_ = 0;
  Report({.loss = averaged.loss,
          .samples = samples,
          .learning_rate = LearningRate(parts_.plan) * last.learning_rate_factor,
          .steps = steps,
          .reduced_bytes = bytes,
          .ddp_bytes = bytes * steps});
}

// Rank 0 alone knows whether a checkpoint is due, and needs the other ranks for it.
absl::Status TrainLoop::SaveAfterRound() {
  const Position& at = parts_.progress.position();
  // An evaluation follows, which may be the best one, or stop the training.
  const bool may_end =
      epoch_begun() && (parts_.plan.early_stop || parts_.plan.checkpoint.best.has_value());
  uint8_t saves = 0;
  if (parts_.saver != nullptr)
    saves = parts_.saver->WouldSave(at.step) || finished() || leaving_ || may_end ? 1 : 0;
  DP_RETURN_IF_ERROR(parts_.group.on_host()
                         .Broadcast({engine::DataType::kUint8, {&saves, 1}}, /*root=*/0)
                         ->Wait());
  parts_.model.outer->of_peers.clear();
  if (saves != 0) DP_RETURN_IF_ERROR(GatherOptimizers());
  if (parts_.saver == nullptr) return absl::OkStatus();
  // Not where it has fallen due only now: the peers' arrays are not here.
  if (saves != 0) parts_.saver->StepDone(at);
  TellSaved();
  return absl::OkStatus();
}

// One array at a time, so that no operation takes long.
absl::Status TrainLoop::GatherOptimizers() {
  RankModel& model = parts_.model;
  engine::Group& group = parts_.group.on_host();
  const auto ranks = static_cast<size_t>(group.size());
  for (size_t from = 1; from < ranks; ++from) {
    const bool sends = from == static_cast<size_t>(group.rank());
    for (const engine::OptimizerState& array : model.optimizer->state()) {
      std::vector<float> own;
      std::vector<absl::Span<const uint8_t>> sent(ranks);
      std::vector<absl::Span<uint8_t>> received(ranks);
      if (sends) {
        DP_ASSIGN_OR_RETURN(own, engine::ReadArray(*model.device, array.values));
        sent[0] = BytesOf(absl::MakeConstSpan(own));
      } else if (group.rank() == 0) {
        model.outer->of_peers.emplace_back(array.values.size());
        received[from] = BytesOf(model.outer->of_peers.back());
      }
      DP_RETURN_IF_ERROR(group.Exchange(std::move(sent), std::move(received))->Wait());
    }
  }
  return absl::OkStatus();
}

}  // namespace dp::trainer
