#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/data/prefetch.h"
#include "worker/engine/data/sampler.h"
#include "worker/engine/ddp/reducer.h"
#include "worker/trainer/progress.h"
#include "worker/trainer/rank_model.h"
#include "worker/trainer/saver.h"
#include "worker/trainer/training_plan.h"

namespace dp::trainer {

// The batches of a plan for one rank.
engine::GlobalBatchSampler TrainSampler(const TrainingPlan& plan, const engine::Dataset& dataset,
                                        int rank, int world_size);

// Steps of the whole training.
int64_t StepsTotal(const TrainingPlan& plan, const engine::GlobalBatchSampler& sampler);

// How a training ends that does not fail.
enum class TrainingEnd {
  kDone,
  kHandedOver,  // every rank has left after the same step, as somebody asked
};

// Trains one rank's replica over the plan's epochs: forward and backward on the rank's share of
// each global batch, gradients averaged over ranks while backward goes on, the same optimizer step
// on every rank. What is passed in must outlive it. Not thread-safe.
class TrainLoop {
 public:
  struct Parts {
    const TrainingPlan& plan;
    RankModel& model;
    engine::Group& group;
    engine::Reducer& reducer;  // over RankModel::averaged
    engine::GlobalBatchSampler& sampler;
    const engine::Dataset& train_set;
    const engine::Dataset& test_set;
    Progress& progress;
    Saver* saver = nullptr;  // of rank 0, where checkpoints are made
    // Takes the steps, by `reducer` where this rank is not alone; where it is null, `model` and
    // `reducer` take them.
    engine::StepProgram* program = nullptr;
    // Whether this rank has learnt that all are to leave. Asked before each step.
    std::function<bool()> asked_to_leave = [] { return false; };
    // Called when the first step here is done, or none is left to do.
    std::function<void()> first_step_done = [] {};
    std::string* trace = nullptr;  // gets the trace of the first steps, where it is wanted
  };
  explicit TrainLoop(const Parts& parts);

  // Goes on from where `progress` stands. Ends after the last epoch or the last step of the plan,
  // or, once any rank was asked to leave, after the same step on all: they see that in the same
  // all-reduce, and by a program have begun some steps more by then.
  // Errors: those of the group; OutOfRange the loss or a weight is infinite or no number.
  absl::StatusOr<TrainingEnd> Run();

  // Where checkpoints are made: saves what Run ended with, and waits until it is registered or
  // known to fail. After Run, from any one thread. Errors: why it is not on record.
  absl::Status SaveEnd();

 private:
  absl::StatusOr<TrainingEnd> RunEpochs();
  absl::Status RunEpoch(int epoch);
  absl::Status RunSteps();
  absl::Status RunStep(const engine::Prefetch::Step& step);
  void TraceStep();
  // The same by the program, where the next step is begun before the tail of this one is known.
  absl::Status RunProgram();
  absl::Status RunProgram(const std::function<const engine::Prefetch::Step*()>& next);
  // Whether the program is to begin no step more. All ranks say so after the same step.
  bool begun_last() const;
  int64_t LastStepAfterWish() const;
  absl::Status BeginStep(const engine::Prefetch::Step& step);
  absl::Status EndStep();
  absl::Status EndSteps();
  // Fills the gradients with their mean over the global batch.
  absl::Status Backward(const engine::Prefetch::Step& step, const engine::BatchResult& forward);
  absl::Status CheckLoss(double loss) const;
  float ScaleOf(const engine::Prefetch::Step& step) const;
  // Steps begun, of which those under way in the program are not done.
  int64_t steps_begun() const;
  absl::Status CheckWeights(int epoch) const;
  absl::Status EvaluateAfter(int epoch);
  void TellSaved();
  void StepDone(double loss, int64_t samples);
  bool finished() const { return steps_begun() >= steps_total_; }

  const Parts parts_;
  const int64_t steps_total_;
  std::deque<int64_t> begun_;         // samples of the steps that are under way in the program
  std::optional<int64_t> last_step_;  // by the program, where a rank wished to leave
  bool leaving_ = false;
  bool stepped_ = false;
};

}  // namespace dp::trainer
