#pragma once

#include <cstdint>
#include <memory>
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
#include "worker/trainer/checkpoint/checkpoint_files.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/model/progress.h"
#include "worker/trainer/model/rank_model.h"

namespace dp::trainer {

// Saves the state of a training on rank 0 while the training continues (docs/checkpoints.md). The
// training thread takes a snapshot of weights and optimizer state. A thread of the saver reads the
// snapshot, writes and registers it, and removes surplus checkpoints. One checkpoint is in flight
// at a time; one that falls due meanwhile is taken as soon as the previous one ends. The best one
// may wait behind it. A failure costs one checkpoint, never the training. The connection must
// outlive the saver. One thread calls at a time: the training thread, and the thread of
// FinishTogether at the end.
class Saver {
 public:
  struct Options {
    std::string directory;    // the job's (JobDirectory)
    int64_t every_steps = 0;  // 0: by time
    absl::Duration every = absl::InfiniteDuration();
    int keep = 2;
    std::optional<WatchedMetric> best;     // of the checkpoint that is kept beside the latest
    v1::CheckpointManifest manifest;       // common to all checkpoints of this rank
    SafetensorsMetadata description = {};  // of the model
  };
  Saver(const Options& options, const Environment& environment, const RankModel& model,
        client::Connection& connection, const Clock& clock);
  // Abandons a checkpoint in flight that is not registered.
  ~Saver();

  // Creates the directory, tries to write to it, and removes checkpoints of earlier generations
  // that are not on record. Errors: the system's, with the path.
  absl::Status Prepare(const std::vector<v1::Checkpoint>& on_record);

  // Call after every step: saves if a checkpoint is due.
  void StepDone(const Position& position) DP_EXCLUDES(mu_);
  // Whether StepDone would save after step `step`.
  bool WouldSave(int64_t step) DP_EXCLUDES(mu_);
  // Saves this position, unless it is on record already, and waits for the outcome. Errors: why it
  // is not on record.
  absl::Status SaveNow(const Position& position) DP_EXCLUDES(mu_);
  // Call after every evaluation, which was at `position`. If it is the best one so far, saves the
  // position as the best checkpoint, or marks the one of this position. Waits for nothing: behind a
  // checkpoint in flight, the best of all evaluations since waits with its snapshot.
  void Evaluated(const Position& position, const Evaluation& evaluation) DP_EXCLUDES(mu_);
  // The best checkpoint on record, of this or of an earlier generation.
  std::optional<v1::Checkpoint> best() DP_EXCLUDES(mu_);
  // Waits until no checkpoint is in flight.
  void AwaitIdle() DP_EXCLUDES(mu_);
  // The training starts at `position`, which is on record already.
  void Resumed(const Position& position) DP_EXCLUDES(mu_);

  // The outcomes of checkpoints since the last call, as metrics "checkpoint" and "checkpoint_lost".
  std::vector<v1::Metric> TakeReports() DP_EXCLUDES(mu_);

 private:
  // A checkpoint in flight. Only the saver's thread touches it once it has begun.
  struct Pending {
    // Its arrays have names. Those of the device have no values until the snapshot is read.
    TrainingState state;
    std::unique_ptr<engine::Snapshot> snapshot;  // of the values, then the optimizer's arrays
    std::string best = {};  // if it is to be the best one: the metric and its value
    // This generation has saved it before, or does so now; only the mark is new then.
    bool mark = false;
  };

  bool Due(int64_t step) const;
  // Takes a snapshot of the state, and gives it to the thread.
  void Begin(const Position& position, const std::string& best = "") DP_EXCLUDES(mu_);
  // Gives the thread a checkpoint, behind the one in flight. Takes the place of one that waits.
  void Enqueue(Pending pending) DP_EXCLUDES(mu_);
  bool IsBetter(double value) DP_EXCLUDES(mu_);
  // Whether the position is saved by this generation, or in flight.
  bool IsSaved(const Position& position) DP_EXCLUDES(mu_);
  void KeepBest(const google::protobuf::RepeatedPtrField<v1::Checkpoint>& on_record)
      DP_EXCLUDES(mu_);
  absl::StatusOr<Pending> StateAt(const Position& position) const;
  bool busy() DP_EXCLUDES(mu_);
  bool on_record(const Position& position) DP_EXCLUDES(mu_);

  void Run() DP_EXCLUDES(mu_);
  void Save(Pending& pending) DP_EXCLUDES(mu_);
  // Moves the snapshot's contents into the state, and frees the snapshot.
  static absl::Status ReadSnapshot(Pending& pending);
  absl::StatusOr<WrittenCheckpoint> WriteAndRegister(const Pending& pending);
  // The files that a mark is about. Errors: NotFound they were lost.
  absl::StatusOr<WrittenCheckpoint> Marked(const Pending& pending) DP_EXCLUDES(mu_);
  absl::StatusOr<WrittenCheckpoint> Write(const TrainingState& state) const;
  absl::Status Register(const Pending& pending, const WrittenCheckpoint& written);
  void ReportSaved(const Pending& pending, const WrittenCheckpoint& written, absl::Time began)
      DP_EXCLUDES(mu_);
  // Removes checkpoints of this and of earlier generations that are not on record.
  void RemoveOthers(const std::vector<v1::Checkpoint>& on_record) const;
  void Report(v1::Metric metric) DP_EXCLUDES(mu_);

  const Options options_;
  const Environment environment_;
  const RankModel& model_;
  const engine::ParameterLayout layout_;  // a copy: the thread may outlast the model
  client::Connection& connection_;
  const Clock& clock_;
  client::Pause pause_;

  // The last checkpoint that was begun. Only the calling thread uses these.
  int64_t begun_step_ = 0;
  absl::Time begun_at_;

  Mutex mu_;
  CondVar changed_;
  std::optional<Pending> pending_ DP_GUARDED_BY(mu_);      // until it is saved or lost
  std::optional<Pending> next_ DP_GUARDED_BY(mu_);         // the best one, behind `pending_`
  int64_t recorded_step_ DP_GUARDED_BY(mu_) = 0;           // the latest on record
  absl::Status outcome_ DP_GUARDED_BY(mu_);                // the last save's outcome
  std::optional<v1::Checkpoint> best_ DP_GUARDED_BY(mu_);  // on record
  std::string best_begun_ DP_GUARDED_BY(mu_);  // the best in flight or waiting; empty: none is
  // The latest that this generation has registered, at recorded_step_.
  std::optional<WrittenCheckpoint> written_ DP_GUARDED_BY(mu_);
  double stall_seconds_ DP_GUARDED_BY(mu_) = 0;
  std::vector<v1::Metric> reports_ DP_GUARDED_BY(mu_);
  bool fenced_ DP_GUARDED_BY(mu_) = false;  // this generation is over
  bool stopped_ DP_GUARDED_BY(mu_) = false;
  std::jthread thread_;  // last: it starts when all other members exist
};

}  // namespace dp::trainer
