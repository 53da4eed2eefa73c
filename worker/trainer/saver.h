#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "client/connection.h"
#include "client/pause.h"
#include "dp/v1/checkpoints.pb.h"
#include "dp/v1/metrics.pb.h"
#include "worker/trainer/checkpoint_files.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/progress.h"
#include "worker/trainer/rank_model.h"

namespace dp::trainer {

// Saves the state of a training, on rank 0, while it goes on: the training's thread copies weights
// and the optimizer's state, a thread of its own writes them, registers them and removes those that
// are too many (docs/checkpoints.md). One checkpoint is under way at a time; where the next is due
// before it is there, it is taken as soon as it is. What cannot be saved costs a checkpoint, not
// the training. The connection must outlive it. One thread at a time: the training's, and at its
// end the one that finishes.
class Saver {
 public:
  struct Options {
    std::string directory;    // of the job (JobDirectory)
    int64_t every_steps = 0;  // 0: by time
    absl::Duration every = absl::InfiniteDuration();
    int keep = 2;
    v1::CheckpointManifest manifest;  // what all its checkpoints have in common
  };
  Saver(const Options& options, const Environment& environment, const RankModel& model,
        client::CheckpointsConnection& connection, const Clock& clock);
  // Lets go of what is under way and not registered.
  ~Saver();

  // Makes the directory, tries to write to it, and removes what earlier generations have left there
  // beside the checkpoints on record. Errors: the system's, with the path.
  absl::Status Prepare(const std::vector<v1::Checkpoint>& on_record);

  // After every step: saves where a checkpoint is due.
  void StepDone(const Position& position) DP_EXCLUDES(mu_);
  // Whether StepDone would save after step `step`.
  bool WouldSave(int64_t step) DP_EXCLUDES(mu_);
  // Saves this position, unless it is on record already, and waits for the outcome. Errors: why it
  // is not on record.
  absl::Status SaveNow(const Position& position) DP_EXCLUDES(mu_);
  // Waits until nothing is under way.
  void AwaitIdle() DP_EXCLUDES(mu_);
  // The step that was resumed needs no saving.
  void Resumed(const Position& position) DP_EXCLUDES(mu_);

  // What has become of checkpoints since the last call, as metrics: "checkpoint",
  // "checkpoint_lost".
  std::vector<v1::Metric> TakeReports() DP_EXCLUDES(mu_);

 private:
  bool Due(int64_t step) const;
  // Copies the state into `pending_`, which is empty, and wakes the thread.
  void Begin(const Position& position) DP_EXCLUDES(mu_);
  absl::StatusOr<TrainingState> StateAt(const Position& position) const;
  bool busy() DP_EXCLUDES(mu_);
  bool on_record(const Position& position) DP_EXCLUDES(mu_);

  void Run() DP_EXCLUDES(mu_);
  void Save(const TrainingState& state) DP_EXCLUDES(mu_);
  absl::StatusOr<WrittenCheckpoint> WriteAndRegister(const TrainingState& state);
  absl::Status Register(const TrainingState& state, const WrittenCheckpoint& written);
  // Removes checkpoints of this and of earlier generations that are not on record.
  void RemoveOthers(const std::vector<v1::Checkpoint>& on_record) const;
  void Report(v1::Metric metric) DP_EXCLUDES(mu_);

  const Options options_;
  const Environment environment_;
  const RankModel& model_;
  const engine::ParameterLayout layout_;  // a copy: the thread may outlast the model
  client::CheckpointsConnection& connection_;
  const Clock& clock_;
  client::Pause pause_;

  // The caller's: of the checkpoint that was begun last.
  int64_t begun_step_ = 0;
  absl::Time begun_at_;

  Mutex mu_;
  CondVar changed_;
  std::optional<TrainingState> pending_ DP_GUARDED_BY(mu_);  // until it is saved
  int64_t recorded_step_ DP_GUARDED_BY(mu_) = 0;             // of the latest on record
  absl::Status outcome_ DP_GUARDED_BY(mu_);                  // of the latest that is not pending
  double stall_seconds_ DP_GUARDED_BY(mu_) = 0;
  std::vector<v1::Metric> reports_ DP_GUARDED_BY(mu_);
  bool fenced_ DP_GUARDED_BY(mu_) = false;  // this generation is over
  bool stopped_ DP_GUARDED_BY(mu_) = false;
  std::jthread thread_;  // last: it starts when all else is there
};

}  // namespace dp::trainer
