#pragma once

#include <string>

#include "absl/time/time.h"
#include "server/core/job.h"

// How a generation of a job ends: by its first failure, the root cause. Pure but for `job`.

namespace dp::core {

// "rank 2 on worker node1 (host a)".
std::string Whereabouts(const Job& job, int rank);

// A failure of `rank`, with its place, and with its exit if known.
Failure FailureOf(const Job& job, int rank, FailureClass failure_class, std::string message);

// Ends the generation with `failure`. A no-op after the first failure, and for a finished job.
void EndGeneration(Job& job, Failure failure, absl::Time at);

}  // namespace dp::core
