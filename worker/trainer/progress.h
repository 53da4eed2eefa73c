#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "worker/trainer/evaluation.h"
#include "worker/trainer/metric_log.h"

namespace dp::trainer {

// Where a training stands between two steps: with the weights and the optimizer's state, all that
// the next step depends on, for what is random is drawn from seed, step and sample.
struct Position {
  int64_t step = 0;  // optimizer steps done
  int epoch = 0;     // of the latest step, counted from 1
  // Of that epoch so far; all its steps may be done.
  int64_t step_of_epoch = 0;
  double epoch_loss_sum = 0;  // over its samples
  int64_t epoch_samples = 0;
};

// Where a rank stands in its training, told as metrics (proto/dp/v1/metrics.proto). Every rank
// tells that it started and ended; only rank 0 tells steps, epochs and evaluations. Not
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
    int64_t tokens_per_sample = 0;  // of texts, whose rate is told in tokens; 0: of images
  };
  Progress(const Options& options, MetricLog& log, const Clock& clock);

  void Started();
  // The steps until `position` were done by an earlier generation or job, and are not told again.
  // `told` says from where; rank 0 writes it.
  void Resumed(const Position& position, v1::Metric told);
  // The next epoch, or the one of the position that was resumed.
  void EpochBegan(int epoch);
  // One optimizer step over `samples` samples of all ranks, whose mean loss was `loss`.
  void StepDone(double loss, int64_t samples);
  void EpochDone();
  void Evaluated(const Evaluation& evaluation);
  void Ended();
  // `saves`: the job keeps checkpoints. `saved`: why the state that is left is not on record, as
  // far as this rank knows.
  void HandedOver(bool saves, const absl::Status& saved);
  // Something beside the steps, of rank 0.
  void Tell(const v1::Metric& metric) { log_.Write(metric); }

  int64_t steps() const { return at_.step; }
  int epoch() const { return at_.epoch; }
  const Position& position() const { return at_; }

 private:
  v1::Metric NewMetric(absl::string_view event) const;
  void SetRate(int64_t samples, absl::Time since, v1::Metric& metric) const;

  const Options options_;
  MetricLog& log_;
  const Clock& clock_;
  absl::Time began_;
  Position at_;
  std::optional<Evaluation> last_evaluation_;

  // Of the epoch that runs, in this process. Evaluation is not part of an epoch's time.
  absl::Time epoch_began_;
  absl::Time step_began_;
  int64_t samples_here_ = 0;
};

}  // namespace dp::trainer
