#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "worker/trainer/model/watched_metric.h"

namespace dp::trainer {

// When a training ends before its last step: once `patience` evaluations in a row have not improved
// on the best one before them. All ranks evaluate alike, so all decide alike. Pure.
struct EarlyStopPlan {
  WatchedMetric metric = WatchedMetric::kLoss;
  int patience = 1;      // at least 1
  double min_delta = 0;  // an improvement is larger than this
};

// The result of the evaluations so far. Part of a training's position: a checkpoint saves it, so
// a training that goes on from there ends where it would have ended.
struct EarlyStopState {
  WatchedMetric metric = WatchedMetric::kLoss;
  std::optional<double> best = {};  // none before the first number
  int64_t best_step = 0;
  int32_t without = 0;    // evaluations since then
  int64_t last_step = 0;  // of the latest evaluation; 0: none

  bool operator==(const EarlyStopState&) const = default;
};

// The state after an evaluation at `step`. An evaluation that is made again, after a training went
// on from its step, changes nothing. Values that are no numbers do not improve. A state of another
// metric is dropped.
EarlyStopState Observe(const EarlyStopPlan& plan, const EarlyStopState& before,
                       const Evaluation& evaluation, int64_t step);

// Why the training ends now, in words; nullopt if it goes on.
std::optional<std::string> WhyStopped(const EarlyStopPlan& plan, const EarlyStopState& state);

}  // namespace dp::trainer
