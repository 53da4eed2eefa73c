#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/engine/nn/learning_rate.h"
#include "worker/engine/nn/optimizer.h"
#include "worker/engine/nn/parameter.h"

namespace dp::server {

enum class TableMode { kSync, kAsync, kBounded };

struct TableOptions {
  TableMode mode = TableMode::kSync;
  int ranks = 1;
  int max_staleness = 0;      // of kBounded
  int64_t publish_every = 1;  // steps of the training, each of one gradient of every rank
  engine::ParameterLayout layout;
  int64_t tail = 0;  // floats behind each gradient
  engine::OptimizerOptions optimizer;
  engine::LearningRateSchedule schedule;
  int64_t steps_of_epoch = 1;
  int64_t steps_total = 1;  // of the training
};

// The facts about a gradient beside its floats.
struct GradientNote {
  double epoch_loss_sum = 0;  // of the epoch before this gradient
  int64_t epoch_samples = 0;  // likewise
  int64_t samples = 0;
  bool leaving = false;
};

// The part of a table's state that is small, between two steps.
struct TableProgress {
  int64_t steps = 0;  // of the optimizer
  // Each step of the training takes one gradient of every rank. kSync: as many as `steps`.
  int64_t training_steps = 0;
  int64_t gradients_since = 0;   // the latest of them; kSync: 0
  std::vector<uint64_t> pushed;  // by rank: the number of the latest gradient in the state
  std::vector<float> tail;       // of the latest step
  float gradient_norm = 0;
  GradientNote note;         // of the latest step's gradient of the lowest rank
  uint64_t leave_after = 0;  // the ranks leave after this gradient; 0: they stay

  bool operator==(const TableProgress&) const;
};

// The weights of one job, and the gradients that its ranks push: which gradient counts, when a step
// is taken, and who must wait. The gradients of a rank are numbered from 1, without gaps. A
// gradient that is pushed again has no effect. In kSync a step takes the mean over all ranks,
// summed in the order of their all-reduce (ordered_reduce.h). Its bits are those of data-parallel
// training. Otherwise each gradient is a step.
//
// Pure: no clock, thread or file. Not thread-safe.
class GradientTable {
 public:
  enum class Verdict {
    kTake,
    kRepeated,  // it has been taken already
    kSkips,     // one before it is missing
    kAhead,     // the rank must first wait for others
  };

  // A state of a table. Values and arrays have layout.size floats each.
  struct State {
    TableProgress progress;
    TableProgress durable = {.steps = -1};  // steps -1: nothing is durable yet
    std::vector<float> values;
    std::vector<std::vector<float>> arrays;  // as Optimizer::state(); empty: zeros, of a new table
  };

  GradientTable(TableOptions options, State state);
  GradientTable(const GradientTable&) = delete;
  GradientTable& operator=(const GradientTable&) = delete;

  // The floats of one gradient with its tail.
  int64_t gradient_size() const { return options_.layout.size + options_.tail; }
  Verdict Judge(int rank, uint64_t number) const;
  // The number of the rank's next gradient.
  uint64_t Next(int rank) const;
  // Takes a gradient of kTake, and every step that it completes. Errors: OutOfRange the step was
  // refused, because a gradient or its tail is not finite. The state is that before the step.
  absl::Status Push(int rank, std::vector<float> gradient, const GradientNote& note);

  // Why the step of this gradient cannot be taken; OK if it can. kSync only: the other ranks of a
  // refused step learn it here.
  absl::Status WhyRefused(int rank, uint64_t number) const;

  // Whether the rank may have the values after so many of its gradients. kSync: the step was taken.
  // kBounded: the slowest rank is near enough. No rank may have many gradients that are not in the
  // durable state, because it keeps them.
  bool MayPull(int rank, uint64_t number) const;
  // The ranks whose gradients such a wait is for; empty: it is for the durable state.
  std::vector<int> MissingFor(int rank, uint64_t number) const;

  // Whether a state must be published now. None is due while another is being written.
  bool PublishDue() const;
  // The state is being written; its progress.
  TableProgress BeginPublish();
  // It is durable, or the write has failed. Without effect if none is being written.
  void EndPublish(bool durable);

  const TableProgress& progress() const { return progress_; }
  // The same of the durable state; steps -1: there is none.
  const TableProgress& durable() const { return durable_; }
  absl::Span<const float> values() const { return values_; }
  // Copies of the optimizer's arrays.
  std::vector<std::vector<float>> arrays() const;
  const TableOptions& options() const { return options_; }

 private:
  struct Pending {
    bool there = false;
    std::vector<float> gradient;
    GradientNote note;
  };

  bool sync() const { return options_.mode == TableMode::kSync; }
  uint64_t slowest() const;
  // The gradients of the rank that are not in the durable state, which it keeps.
  uint64_t NotDurable(int rank) const;
  // Whether the optimizer can take it.
  bool IsFinite(absl::Span<const float> gradient) const;
  absl::Status Refusal(const std::vector<int>& ranks) const;
  void TakeStep(const std::vector<float>& gradient, const GradientNote& note);
  absl::Status TakeStepOfAll();
  void NoteLeaving();

  const TableOptions options_;
  TableProgress progress_;
  TableProgress durable_;
  TableProgress publishing_;
  bool publishes_ = false;
  absl::Status refused_;          // kSync: the step behind progress_
  std::vector<Pending> pending_;  // by rank; kSync only
  std::vector<float> values_;     // in options_.layout
  std::vector<float> gradients_;  // read by optimizer_
  std::unique_ptr<engine::Optimizer> optimizer_;
};

// The names of the arrays that the optimizer keeps, as in Optimizer::state().
std::vector<std::string> ArrayNames(const engine::OptimizerOptions& options);

// The progress of a table of `ranks` ranks that goes on with another generation. If there were as
// many before, every rank goes on behind its own latest gradient; else all behind the same number.
// The schedule goes on where it is.
TableProgress ForRanks(TableProgress progress, int ranks);

}  // namespace dp::server
