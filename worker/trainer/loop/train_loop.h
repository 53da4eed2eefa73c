#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/data/prefetch.h"
#include "worker/engine/data/sampler.h"
#include "worker/engine/ddp/reducer.h"
#include "worker/trainer/checkpoint/saver.h"
#include "worker/trainer/loop/step_parts.h"
#include "worker/trainer/loop/table_link.h"
#include "worker/trainer/model/progress.h"
#include "worker/trainer/model/rank_model.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

// Selects one rank's batches of a plan.
engine::GlobalBatchSampler TrainSampler(const TrainingPlan& plan, const engine::Dataset& dataset,
                                        int rank, int world_size);

// Steps of an epoch, and of the whole training.
int64_t StepsOfEpoch(const TrainingPlan& plan, const engine::GlobalBatchSampler& sampler);
int64_t StepsTotal(const TrainingPlan& plan, const engine::GlobalBatchSampler& sampler);

// How a training ends without an error.
enum class TrainingEnd {
  kDone,
  kHandedOver,  // every rank has left after the same step, on request
};

// Trains one rank's replica over the plan's epochs. Each step runs forward and backward on the
// rank's share of the global batch and averages gradients over ranks during backward. Every rank
// then takes the same optimizer step. Local SGD averages weights instead, once in a round of steps
// (nn/outer_step.h). Reports, evaluations, checkpoints and the end of the training then fall on the
// end of a round. The parts must outlive the loop. Not thread-safe.
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
    Saver* saver = nullptr;  // rank 0 only, if checkpoints are made
    // Takes the steps, with `reducer` unless this rank is alone. If null, `model` and `reducer`
    // take the steps, as they must for local SGD.
    engine::StepProgram* program = nullptr;
    // Takes the steps in the coordinator, with the gradients of `model`; null: this process takes
    // them. Excludes a program.
    TableLink* table = nullptr;
    // Whether this rank knows that all ranks are to leave. Called before each step.
    std::function<bool()> asked_to_leave = [] { return false; };
    // Called when the first step in this process is done, or when no step is left to do.
    std::function<void()> first_step_done = [] {};
    // Called with the reason if the training ends before its last step, as the plan says.
    std::function<void(const std::string&)> stopped_early = [](const std::string&) {};
    std::string* trace = nullptr;  // receives the trace of the first steps; null: none wanted
  };
  explicit TrainLoop(const Parts& parts);

  // Continues from the position of `progress`. Ends after the last epoch or the last step of the
  // plan, or early as the plan says. If any rank is asked to leave, all ranks end after the same
  // step: they see the request in the same all-reduce. A program has begun a few more steps by
  // then, and all ranks finish those. Errors: those of the group and the device, after which the
  // group is aborted; OutOfRange the loss or a weight is not finite.
  absl::StatusOr<TrainingEnd> Run();

  // Saves the state with which Run ended, if checkpoints are made. Waits until it is registered or
  // has failed. Call after Run, from any one thread. Errors: why it is not on record.
  absl::Status SaveEnd();

 private:
  absl::StatusOr<TrainingEnd> RunEpochs();
  absl::Status RunEpoch(int epoch);
  std::vector<engine::DeviceLoad> LoadsSince(const std::vector<engine::DeviceLoad>& before) const;
  // Runs the steps of the current epoch that lie in one pass over the data, with this pass's order.
  absl::Status RunPass();
  absl::Status RunSteps(int64_t first_step);
  absl::Status RunStep(const engine::Prefetch::Step& step);
  void TraceStep();
  // A step of local SGD: this rank's weights alone move. The last step of a round ends the round.
  absl::Status RunLocalStep(const engine::Prefetch::Step& step);
  absl::Status BeginRounds();
  bool round_begun() const;
  // Ends a round: moves the anchor by the mean of what the ranks' steps have changed, and gives all
  // ranks the anchor.
  absl::Status EndRound();
  absl::StatusOr<engine::StepTail> ReduceRound();
  absl::Status MoveAnchor();
  void ReportRound(const engine::StepTail& averaged);
  // Saves if a checkpoint is due, or if the training ends here. Every rank calls it.
  absl::Status SaveAfterRound();
  // Sends the arrays of the ranks' optimizers to rank 0.
  absl::Status GatherOptimizers();
  // As RunSteps with the program, which begins the next step before the tail of this one is known.
  absl::Status RunProgram(int64_t first_step);
  absl::Status RunProgram(const std::function<const engine::Prefetch::Step*()>& next);
  // Whether the program has begun its last step, which is the same step on all ranks.
  bool begun_last() const;
  int64_t LastStepAfterHandover() const;
  absl::Status BeginStep(const engine::Prefetch::Step& step);
  absl::Status EndStep();
  absl::Status EndSteps();
  // As RunStep, where the table takes the step.
  absl::StatusOr<engine::StepTail> StepInTable(const engine::Prefetch::Step& step);
  absl::StatusOr<engine::StepTail> StepHere(const engine::Prefetch::Step& step);
  // Sets the gradients to their mean over the global batch; with a table, to this rank's share.
  absl::Status ComputeGradients(const engine::Prefetch::Step& step);
  // How many parts of its share this rank computes.
  int PartsOf(const engine::Prefetch::Step& step) const;
  // Batch::loss_factor of this step. A collective where labels weigh differently. Errors: the
  // group's; OutOfRange no label of the global batch counts.
  absl::StatusOr<float> LossFactorOf(const engine::Prefetch::Step& step);
  // This rank's share of a step, up to the backward of its last part.
  struct Computed {
    double loss_sum = 0;
    bool accumulated = false;  // gradients of the parts before wait for those of the last
  };
  // Errors: LossFactorOf's.
  absl::StatusOr<Computed> ComputeParts(const engine::Prefetch::Step& step);
  // Backward of the last part. Adds the gradients of the parts before, if there are any.
  absl::Status BackwardOfLast(const engine::Prefetch::Step& step, const Computed& computed);
  void AddAccumulated(int index);
  absl::Status CheckFinite(absl::string_view what, double number) const;
  float ScaleOf(const engine::Prefetch::Step& step) const;
  // Steps that were begun, including those in flight in the program or in the round.
  int64_t steps_begun() const;
  engine::OptimizerStep OptimizerStepOf(int64_t number) const;
  // `after` names the step or the epoch in errors.
  absl::Status CheckWeights(absl::string_view after) const;
  absl::Status MeetInTable();
  absl::Status EvaluateAfter(int epoch);
  absl::StatusOr<Evaluation> EvaluateResult(int batch);
  bool StopsEarly() const;
  void TellSaved();
  // Reports a step of all ranks with this averaged tail, unless its norm is not finite.
  absl::Status StepDone(const engine::StepTail& tail, int64_t samples);
  void Report(const StepReport& report);
  bool finished() const { return steps_begun() >= steps_total_; }
  // Whether all steps of the current epoch were begun.
  bool epoch_begun() const;

  const Parts parts_;
  const int64_t steps_of_epoch_;
  const int64_t steps_total_;
  StepParts step_parts_;
  // Samples of each step in flight in the program, or of each step of a round that has not ended.
  std::deque<int64_t> begun_;
  double round_loss_ = 0;             // the round's losses, each times its step's samples
  bool round_leaving_ = false;        // this rank was asked to leave in the round
  std::optional<int64_t> last_step_;  // set after a request to leave, by the program
  bool leaving_ = false;
  bool stepped_ = false;
};

// Runs rank 0's work at the end of a training, which may take long, while all ranks stay in the
// group. `work` runs on a thread of its own, on rank 0 only. Until it returns, all ranks repeat a
// small all-reduce. The peers thus notice a rank 0 that dies or hangs, as in any step. Every rank
// calls this. `meet_every` must be well below the group's deadline.
//
// Rank 0 returns the result of `work`, even if a peer is lost meanwhile: that peer fails by itself.
// The other ranks return the group's errors.
absl::Status FinishTogether(engine::Group& group, absl::Duration meet_every,
                            const std::function<absl::Status()>& work);

}  // namespace dp::trainer
