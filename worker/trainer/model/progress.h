#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "worker/engine/collectives/reduce/reduction.h"
#include "worker/engine/device/device.h"
#include "worker/trainer/model/early_stop.h"
#include "worker/trainer/model/evaluation.h"
#include "worker/trainer/model/metric_log.h"

namespace dp::trainer {

// The position of a training between two steps. The next step depends only on this, the weights and
// the optimizer's state, because random numbers are drawn from seed, step and sample.
struct Position {
  int64_t step = 0;  // completed optimizer steps
  int epoch = 0;     // the latest step's epoch, counted from 1
  // Within that epoch; all its steps may be done.
  int64_t step_of_epoch = 0;
  double epoch_loss_sum = 0;  // over the epoch's samples
  int64_t epoch_samples = 0;
  // The order in which the ranks' gradients are summed, from the first step to the last.
  engine::ReduceOrder sum_order = engine::ReduceOrder::kTree;
  EarlyStopState early_stop = {};
};

// An optimizer step of all ranks, or a round of local SGD, as it is reported.
struct StepReport {
  double loss = 0;      // mean over the samples
  int64_t samples = 0;  // of all ranks
  double learning_rate = 0;
  std::optional<double> gradient_norm = {};  // if gradients are clipped
  int64_t steps = 1;
  // With local SGD: the bytes that each rank gave to all-reduces, and what ddp's steps would give.
  int64_t reduced_bytes = 0;
  int64_t ddp_bytes = 0;
};

// Reports a rank's progress as metrics (proto/dp/v1/metrics.proto). Every rank reports its start
// its end and the load of its devices; only rank 0 reports steps, epochs and evaluations. Not
// thread-safe.
class Progress {
 public:
  struct Options {
    int rank = 0;
    int world_size = 1;
    int threads = 1;
    absl::string_view backend;
    std::string device = "cpu";  // or the GPU's model
    std::string precision = "float32";
    int epochs_total = 0;
    int64_t steps_total = 0;
    int64_t tokens_per_sample = 0;  // for texts, whose rate is in tokens; 0: images
  };
  Progress(const Options& options, MetricLog& log, const Clock& clock);

  void Started();
  // An earlier generation or job did the steps until `position`; they are not reported again. Rank
  // 0 writes `told`, which names the checkpoint.
  void Resumed(const Position& position, v1::Metric told);
  // `epoch` is the next epoch, or the epoch of the resumed position.
  void EpochBegan(int epoch);
  void StepDone(const StepReport& report);
  void EpochDone();
  // The work of each of this rank's devices in the epoch, if it has several.
  void DevicesDone(const std::vector<engine::DeviceLoad>& loads);
  void Evaluated(const Evaluation& evaluation);
  void Observed(const EarlyStopState& state) { at_.early_stop = state; }
  // The training ends before its last step.
  void StoppedEarly(const std::string& why);
  void Ended();
  // `saves`: the job keeps checkpoints. `saved`: this rank's error when it saved its final state;
  // OK on ranks that save nothing.
  void HandedOver(bool saves, const absl::Status& saved);
  // Writes another metric. Rank 0 only.
  void Tell(const v1::Metric& metric) { log_.Write(metric); }

  int64_t steps() const { return at_.step; }
  int epoch() const { return at_.epoch; }
  const Position& position() const { return at_; }

 private:
  v1::Metric NewMetric(absl::string_view event) const;
  void SetRate(int64_t samples, absl::Time since, v1::Metric& metric) const;
  static void SetBytes(const StepReport& report, v1::Metric& metric);

  const Options options_;
  MetricLog& log_;
  const Clock& clock_;
  absl::Time began_;
  Position at_;
  std::optional<Evaluation> last_evaluation_;
  std::optional<double> learning_rate_;  // of the last step in this process

  // The current epoch, in this process. Evaluation does not count towards an epoch's time.
  absl::Time epoch_began_;
  absl::Time step_began_;
  int64_t samples_here_ = 0;
  StepReport sent_;  // the epoch's steps and bytes
};

}  // namespace dp::trainer
