#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "worker/trainer/evaluation.h"
#include "worker/trainer/metric_log.h"

namespace dp::trainer {

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
    int epochs_total = 0;
    int64_t steps_total = 0;
  };
  Progress(const Options& options, MetricLog& log, const Clock& clock);

  void Started();
  void EpochBegan(int epoch);
  // One optimizer step over `samples` samples of all ranks, whose mean loss was `loss`.
  void StepDone(double loss, int64_t samples);
  void EpochDone();
  void Evaluated(const Evaluation& evaluation);
  void Ended();

  int64_t steps() const { return steps_; }
  int epoch() const { return epoch_; }

 private:
  v1::Metric NewMetric(absl::string_view event) const;
  void SetRate(int64_t samples, absl::Time since, v1::Metric& metric) const;

  const Options options_;
  MetricLog& log_;
  const Clock& clock_;
  absl::Time began_;
  int64_t steps_ = 0;
  std::optional<Evaluation> last_evaluation_;

  // Of the epoch that runs. Evaluation is not part of an epoch's time.
  int epoch_ = 0;  // counts from 1
  absl::Time epoch_began_;
  absl::Time step_began_;
  double loss_sum_ = 0;
  int64_t samples_ = 0;
};

}  // namespace dp::trainer
