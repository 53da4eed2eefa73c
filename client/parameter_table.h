#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "client/connection.h"
#include "client/pause.h"
#include "dp/v1/parameters.pb.h"

namespace dp::client {

// The facts about a gradient beside its floats; as in PushGradientsRequest.
struct GradientNote {
  double epoch_loss_sum = 0;
  int64_t epoch_samples = 0;
  int64_t samples = 0;
  bool leaving = false;
};

// One rank's side of the table of its job (proto/dp/v1/parameters.proto). It keeps the rank's
// gradients since the latest durable state. A coordinator that restarts has that state, so the rank
// pushes them again, and each takes effect once. Gradients of a former generation were durable when
// the table was opened for this one, so nobody keeps them. Blocking; waits for a coordinator that
// is away. Connection and pause outlive it. Not thread-safe.
class ParameterTable {
 public:
  struct Options {
    uint64_t job = 0;
    uint64_t generation = 0;
    int rank = 0;
    v1::TableSettings settings;
    // Peers that the table waits for longer than this are missing.
    absl::Duration detect_within = absl::Seconds(30);
  };

  ParameterTable(const Options& options, Connection& connection, Pause& pause,
                 const Clock& clock = Clock::Steady());

  // Opens the table; the rank goes on behind the gradients that it has. Errors: those of
  // Parameters.OpenTable.
  absl::StatusOr<v1::OpenTableResponse> Open();
  // Gives a new table its values. Rank 0 only.
  absl::Status Begin(absl::Span<const float> values);
  // Pushes the rank's next gradient, with its tail, and gets the values behind it.
  // Errors: those of PushGradients and PullValues. DeadlineExceeded peers are missing, which
  // `missing` then names. DataLoss the table has gone back behind what this rank can push again.
  absl::StatusOr<v1::TableState> Step(uint64_t number, absl::Span<const float> gradient,
                                      const GradientNote& note, absl::Span<float> values);
  // Gets the values behind gradient `number` of this rank. Errors: as Step.
  absl::StatusOr<v1::TableState> Pull(uint64_t number, absl::Span<float> values);
  // Makes the state durable that has this rank's latest gradient; `close` also frees the table.
  // Errors: those of PublishTable; DataLoss as Step.
  absl::StatusOr<v1::ParameterVersion> Publish(bool close);

  const std::vector<int>& missing() const { return missing_; }
  size_t kept() const { return kept_.size(); }

 private:
  struct Kept {
    uint64_t number = 0;
    std::vector<float> gradient;
    GradientNote note;
  };

  absl::StatusOr<v1::OpenTableResponse> OpenOnce();
  // Pushes what the table lacks, up to the rank's latest gradient.
  absl::Status PushKept(uint64_t next);
  // As PushKept; opens the table again after a restart of the coordinator.
  absl::Status PushFrom(uint64_t next);
  // Opens the table again. Returns the number of the rank's next gradient.
  absl::StatusOr<uint64_t> Reopen();
  // The number of the rank's next gradient. One attempt of the call, retried while nobody answers.
  absl::StatusOr<uint64_t> Push(uint64_t number, absl::Span<const float> data,
                                const GradientNote& note);
  absl::StatusOr<v1::TableState> PullOnce(uint64_t number, absl::Span<float> values);
  absl::StatusOr<v1::TableState> AwaitValues(uint64_t number, absl::Span<float> values);
  // Why a wait for the ranks in `missing_` has ended.
  absl::Status Late(uint64_t number) const;
  void Forget(const v1::TableState& state);
  template <typename Attempt>
  auto Retried(Attempt attempt);

  const Options options_;
  Connection& connection_;
  Pause& pause_;
  const Clock& clock_;
  std::vector<float> initial_;  // of rank 0, until a state is durable
  std::deque<Kept> kept_;       // by number, without gaps
  uint64_t latest_ = 0;         // gradient of the rank, perhaps of a former generation
  std::vector<int> missing_;    // of the latest wait
  std::vector<uint64_t> missing_at_;
};

}  // namespace dp::client
