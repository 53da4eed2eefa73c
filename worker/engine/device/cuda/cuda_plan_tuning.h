#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/cuda_planning.h"

namespace dp::engine::cuda {

// An operation that several algorithms of a library can do.
struct TuningTask {
  std::string plan;                     // its name in the cache
  std::vector<std::string> candidates;  // their names in the cache, the library's favourite first
  // Makes this candidate what `run` runs, if it can be run.
  absl::FunctionRef<absl::Status(int)> build;
  // Queues it on Planning::stream.
  absl::FunctionRef<absl::Status()> run;
};

// How many candidates are looked at. Beyond these a library's order is right often enough.
inline constexpr int kCandidatesMax = 8;

// The candidate to use, and builds it: what the cache says and, if that is none of the candidates,
// the fastest, which it puts into the cache. With Tuning::kFirst the first that can be built; the
// cache is left alone.
// Errors: that of the first candidate where none can be built; Unimplemented without candidates.
absl::Status BuildBest(const Planning& planning, const TuningTask& task);

}  // namespace dp::engine::cuda
