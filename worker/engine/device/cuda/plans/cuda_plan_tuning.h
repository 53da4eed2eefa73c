#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/plans/cuda_planning.h"

namespace dp::engine::cuda {

// How many candidates are timed where each costs nothing but its runs, and where it costs a
// compilation. Beyond these a library's order is right often enough.
inline constexpr int kCandidatesMax = 32;
inline constexpr int kCompiledMax = 8;

// An operation that several algorithms of a library can compute.
struct TuningTask {
  std::string plan;                     // its name in the cache
  std::vector<std::string> candidates;  // their names in the cache, the library's favourite first
  int timed_max = kCandidatesMax;
  // Makes this candidate the one that `run` runs, or fails if it cannot be run. Called for each
  // turn of a candidate.
  absl::FunctionRef<absl::Status(int)> build;
  // Queues the candidate on Planning::stream.
  absl::FunctionRef<absl::Status()> run;
};

// Chooses a candidate and builds it. Takes the cache's choice; if that cannot be built, takes the
// fastest candidate and puts it into the cache. Candidates take turns, since a card's clock
// changes. Before the first timing the card is kept busy until its clock is up. With Tuning::kFirst
// takes the first candidate that can be built, and leaves the cache alone. Errors: the first
// candidate's if none can be built; Unimplemented there are no candidates.
absl::Status BuildBest(const Planning& planning, const TuningTask& task);

}  // namespace dp::engine::cuda
