// The steps of a rank that is alone on a device which takes them as one piece.

#include <cmath>

#include "base/check.h"
#include "base/status.h"
#include "worker/engine/data/numbered_steps.h"
#include "worker/trainer/fault_point.h"
#include "worker/trainer/train_loop.h"

namespace dp::trainer {

int64_t TrainLoop::steps_begun() const {
  return parts_.progress.steps() + static_cast<int64_t>(begun_.size());
}

absl::Status TrainLoop::RunProgram() {
  DP_CHECK(parts_.group.size() == 1);
  const int64_t first_step = parts_.progress.position().step_of_epoch;
  const auto first_draw = static_cast<uint64_t>(parts_.progress.steps());
  if (parts_.program->has_data()) {
    engine::NumberedSteps steps(parts_.sampler, first_step, first_draw);
    return RunProgram([&] { return steps.Next(); });
  }
  engine::Prefetch prefetch(parts_.train_set, parts_.sampler, first_step, first_draw);
  return RunProgram([&] { return prefetch.Next(); });
}

absl::Status TrainLoop::RunProgram(const std::function<const engine::Prefetch::Step*()>& next) {
  while (!finished() && !leaving_) {
    const engine::Prefetch::Step* step = next();
    if (step == nullptr) break;
    const bool leave = parts_.asked_to_leave();
    DP_RETURN_IF_ERROR(BeginStep(*step));
    // Weights and position belong together only where no step is under way.
    if (parts_.saver != nullptr && parts_.saver->WouldSave(steps_begun())) {
      DP_RETURN_IF_ERROR(EndSteps());
      parts_.saver->StepDone(parts_.progress.position());
    }
    if (parts_.saver != nullptr) TellSaved();
    leaving_ = leave && !finished();
  }
  return EndSteps();
}

absl::Status TrainLoop::BeginStep(const engine::Prefetch::Step& step) {
  ReachFaultPoint("step", steps_begun() + 1);
  engine::StepProgram& program = *parts_.program;
  if (program.under_way() == program.under_way_max()) DP_RETURN_IF_ERROR(EndStep());
  const float scale = ScaleOf(step);
  program.Begin({.batch = step.batch, .scale = scale, .number = steps_begun() + 1});
  begun_.push_back({scale, step.global_count});
  return absl::OkStatus();
}

// A loss that is no number is seen some steps late, but before weights that it has spoilt are
// saved.
absl::Status TrainLoop::EndStep() {
  const engine::BatchResult result = parts_.program->End();
  DP_RETURN_IF_ERROR(parts_.model.device->status());
  const double loss = static_cast<float>(result.loss_sum) * begun_.front().scale;
  DP_RETURN_IF_ERROR(CheckLoss(loss));
  const int64_t samples = begun_.front().global_count;
  begun_.pop_front();
  StepDone(loss, samples);
  return absl::OkStatus();
}

absl::Status TrainLoop::EndSteps() {
  while (!begun_.empty()) DP_RETURN_IF_ERROR(EndStep());
  return absl::OkStatus();
}

}  // namespace dp::trainer
