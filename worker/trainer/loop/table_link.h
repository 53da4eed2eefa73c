#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "client/parameter_table.h"
#include "dp/v1/parameters.pb.h"
#include "worker/engine/device/device.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/model/progress.h"
#include "worker/trainer/model/rank_model.h"
#include "worker/trainer/model/training_plan.h"

namespace dp::trainer {

// The settings of the table of a training with strategy ps. `steps_of_epoch` and `steps_total` are
// those of the training. Pure.
v1::TableSettings TableSettingsOf(const TrainingPlan& plan, const engine::ParameterLayout& layout,
                                  int ranks, int64_t steps_of_epoch, int64_t steps_total);

// The position of a rank behind `number` of its gradients, from the state of its table. Pure.
Position PositionIn(const v1::TableState& state, uint64_t number, int64_t steps_of_epoch);

// One rank's side of a training whose optimizer runs in the coordinator (docs/parameters.md): takes
// gradients from the device to the table, and values back. Model and connection outlive it. Not
// thread-safe.
class TableLink {
 public:
  TableLink(const TrainingPlan& plan, const Environment& environment, RankModel& model,
            const v1::TableSettings& settings, client::Connection& connection, client::Pause& pause,
            const Clock& clock);

  // Opens the table, which takes the model's values if it is new. On return the model has the
  // table's values. Returns where this rank goes on. Errors: those of client::ParameterTable.
  absl::StatusOr<Position> Join();
  // Takes the gradients and the tail of the step behind `at` to the table, and gets the values and
  // the tail of the table's step. Errors: as Join; DeadlineExceeded carries the missing ranks.
  absl::StatusOr<engine::StepTail> Step(const Position& at, int64_t samples);
  // Gets the latest values, so that ranks which meet have the same ones. Errors: as Step.
  absl::Status Refresh();
  // Makes the state durable, and, if the training is done, frees the table. Any one thread.
  absl::Status Publish(bool done);

 private:
  absl::StatusOr<v1::TableState> Got(absl::StatusOr<v1::TableState> state);

  RankModel& model_;
  const bool sync_;
  const int64_t steps_of_epoch_;
  const Environment& environment_;
  client::ParameterTable table_;
  uint64_t number_ = 0;          // of the latest gradient
  std::vector<float> values_;    // on the host
  std::vector<float> gradient_;  // on the host, with its tail
};

}  // namespace dp::trainer
