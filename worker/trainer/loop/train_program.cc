// Steps taken by a device's step program. A step begins before the results of earlier steps are
// known.

#include "base/status.h"
#include "worker/engine/data/prefetch.h"
#include "worker/trainer/fault_point.h"
#include "worker/trainer/loop/train_loop.h"

namespace dp::trainer {

int64_t TrainLoop::steps_begun() const {
  return parts_.progress.steps() + static_cast<int64_t>(begun_.size());
}

absl::Status TrainLoop::RunProgram(int64_t first_step) {
  const auto first_draw = static_cast<uint64_t>(parts_.progress.steps());
  if (parts_.program->has_data()) {
    engine::NumberedSteps steps(parts_.sampler, first_step, first_draw);
    return RunProgram([&] { return steps.Next(); });
  }
  engine::Prefetch prefetch(parts_.train_set, parts_.sampler, first_step, first_draw,
                            parts_.plan.data.prefetch_threads);
  DP_RETURN_IF_ERROR(RunProgram([&] { return prefetch.Next(); }));
  return prefetch.status();
}

absl::Status TrainLoop::RunProgram(const std::function<const engine::Prefetch::Step*()>& next) {
  while (true) {
    if (parts_.program->under_way() == parts_.program->under_way_max())
      DP_RETURN_IF_ERROR(EndStep());
    const engine::Prefetch::Step* step = begun_last() || epoch_begun() ? nullptr : next();
    if (step == nullptr) break;
    DP_RETURN_IF_ERROR(BeginStep(*step));
    // Weights and position match only while no step is in flight.
    if (parts_.saver != nullptr && parts_.saver->WouldSave(steps_begun())) {
      DP_RETURN_IF_ERROR(EndSteps());
      parts_.saver->StepDone(parts_.progress.position());
    }
    if (parts_.saver != nullptr) TellSaved();
  }
  DP_RETURN_IF_ERROR(EndSteps());
  leaving_ = last_step_.has_value() && !finished();
  return absl::OkStatus();
}

bool TrainLoop::begun_last() const {
  return finished() || (last_step_.has_value() && steps_begun() >= *last_step_);
}

absl::Status TrainLoop::BeginStep(const engine::Prefetch::Step& step) {
  const int64_t number = steps_begun() + 1;
  const bool leaving = parts_.asked_to_leave();
  ReachFaultPoint("step", number);
  DP_RETURN_IF_ERROR(parts_.program->Begin({.batch = step.batch,
                                            .scale = ScaleOf(step),
                                            .step = OptimizerStepOf(number),
                                            .leaving = leaving}));
  DP_RETURN_IF_ERROR(parts_.model.device->status());
  begun_.push_back(step.global_count);
  if (leaving && parts_.group.size() == 1) last_step_ = number;
  ReachFaultPoint("all-reduce", number);
  return absl::OkStatus();
}

// The device's results count only once the group confirms them. A loss that is not finite is
// noticed some steps late, but before the weights that it has spoilt are saved.
absl::Status TrainLoop::EndStep() {
  const absl::Status settled = parts_.reducer.Settle();
  const engine::StepTail averaged = parts_.program->End();
  DP_RETURN_IF_ERROR(parts_.model.device->status());
  DP_RETURN_IF_ERROR(settled);
  DP_RETURN_IF_ERROR(CheckFinite("loss", averaged.loss));
  const int64_t samples = begun_.front();
  begun_.pop_front();
  DP_RETURN_IF_ERROR(StepDone(averaged, samples));
  if (averaged.leaving > 0 && !last_step_.has_value()) last_step_ = LastStepAfterHandover();
  TraceStep();
  return absl::OkStatus();
}

// The last step that any rank can have begun before it sees the request.
int64_t TrainLoop::LastStepAfterHandover() const {
  return parts_.progress.steps() + parts_.program->under_way_max() - 1;
}

absl::Status TrainLoop::EndSteps() {
  while (!begun_.empty()) DP_RETURN_IF_ERROR(EndStep());
  return absl::OkStatus();
}

}  // namespace dp::trainer
